"""What a whole run holds: the names of all checks and of all parts, and which check guards which part.

No torch here: the validator knows the names too, and must run where torch does not. The surprise: checks of
`NEEDS_CUDA` run on a CPU all the same, on the fallback that a CPU takes, but are then filed as skipped: they prove
the script and not the kernel.
"""

NEEDS_CUDA = (
    "attention_varlen_bf16",
    "attention_int32_guard",
    "moe_no_host_sync",
    "model_no_host_sync",
    "offload_gradients",
    "offload_host_sync_inside",
    "offload_removed_wait",
)
"""Checks of what only a CUDA device has: its kernels, its streams, its waits."""

ANYWHERE = (
    "attention_runs_fp32",
    "attention_shared_prefix",
    "model_dense",
    "model_moe",
    "model_hybrid",
    "documents_isolated",
    "moe_dispatches",
    "delta_rule",
    "tiled_head",
    "keyed_noise",
    "rollout_dense",
    "rollout_moe",
    "rollout_hybrid",
    "train_step_fp32",
    "train_step_bf16",
    "safetensors",
)
"""Checks of the same code on any device, against float32 on the CPU."""

CHECKS = (*NEEDS_CUDA[:2], *ANYWHERE, *NEEDS_CUDA[2:])
"""Every check, in the order they run."""

FAMILIES = ("dense", "moe", "hybrid")

STEP = ("attention_varlen_bf16", "tiled_head", "train_step_bf16", "offload_gradients")
"""What every model's whole step stands on."""

PARTS: dict[str, tuple[str, ...]] = {
    "ceilings": (),
    "metadata_layer": ("attention_runs_fp32", "attention_varlen_bf16"),
    "moe_layer": ("moe_dispatches",),
    "reload_layer": ("offload_gradients", "offload_host_sync_inside"),
    "dense": ("model_dense", "rollout_dense", *STEP),
    "moe": ("model_moe", "rollout_moe", "moe_dispatches", *STEP),
    "hybrid": ("model_hybrid", "rollout_hybrid", "delta_rule", *STEP),
}
"""What is measured, in this order, and the checks that a part must not fail: a wrong result has no speed."""
