"""The three starting points of the embedded engine, lever by lever, each with the reason for its value.

    default        what TRL 1.16's `GRPOConfig()` does on the same work, changing only what fixes the work
    best_practice  TRL's documented advice for one node on the same work, ties settled in its favour
    expert         the strongest synchronous setting we know by hand

The surprise: the baselines are *engine* settings, so the speed of TRL's own code is not in them; they are
faster than the configurations they stand for. `docs/design/baselines.md` holds the evidence and what is not
equal; tests/peers checks the tables against the live library.
"""

from steptune.core.errors import JobError, explain, nearest
from steptune.core.framework import Lever
from steptune.core.job import JobSpec, LossAggregation
from steptune.core.knob import KnobValue
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan_shared import can_share_prompts

DEFAULT_DEVICE_ROWS = 8
"""Rows per micro-batch: `GRPOConfig().per_device_train_batch_size` (TRL 1.16.0)."""

BEST_PRACTICE_DEVICE_ROWS = 32
"""Rows per micro-batch. With about 1 M parameters on one core, a TRL step of 256 rollouts without checkpointing takes
2.6, 2.2 and 2.2 CPU-s at 8, 32 and 64 rows, ours 1.19, 1.17 and 1.29 (docs/design/baselines.md, 2026-11-30)."""

EXPERT_MICRO_BATCH_TOKENS = 4096
"""Positions per packed micro-batch; 1024 to 8192 took the same time within noise (docs/design/baselines.md)."""

LOSS_TYPES = {
    LossAggregation.TOKEN_MEAN: "dapo",
    LossAggregation.SEQ_MEAN_TOKEN_MEAN: "grpo",
    LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM: "dr_grpo",
}
"""`GRPOConfig.loss_type` of each aggregation (tests/peers compares the values)."""

_Row = tuple[KnobValue, str]
"""A lever's value and why."""

PINNED = "pinned in the job"


def work_arguments(job: JobSpec) -> dict[str, KnobValue]:
    """Return the `GRPOConfig` arguments that fix the job's work; everything else stays as TRL has it.

    Example: the example job gives ``gradient_accumulation_steps=32, max_completion_length=40, ...``: 32
    accumulated micro-batches of TRL's own 8 rows are its 256 rollouts.
    """
    algorithm = job.algorithm
    rows = _device_rows(job, DEFAULT_DEVICE_ROWS)
    arguments: dict[str, KnobValue] = {
        "gradient_accumulation_steps": _rows_per_update(job) // rows,
        "num_generations": algorithm.group_size,
        "max_completion_length": algorithm.max_completion_len,
        "temperature": algorithm.temperature,
        "learning_rate": algorithm.lr,
        "lr_scheduler_type": "constant",
        "weight_decay": algorithm.weight_decay,
        "max_grad_norm": algorithm.max_grad_norm,
        "epsilon": algorithm.clip_low,
        "epsilon_high": algorithm.clip_high,
        "delta": algorithm.dual_clip,
        "loss_type": LOSS_TYPES[algorithm.loss_aggregation],
        "scale_rewards": algorithm.scale_advantage,
        "beta": algorithm.kl_coef,
        "mask_truncated_completions": algorithm.mask_truncated,
    }
    if rows != DEFAULT_DEVICE_ROWS:
        arguments["per_device_train_batch_size"] = rows
    if algorithm.num_updates > 1:
        arguments["steps_per_generation"] = algorithm.num_updates * _rows_per_update(job) // rows
    return arguments


def default_levers(job: JobSpec, *, longest_prompt_len: int) -> tuple[Lever, ...]:
    """Return what `GRPOConfig()` does, given only the job's work.

    ``longest_prompt_len`` is in tokens; with it the micro-batch is TRL's number of rows, whatever their length.

    Raises:
        JobError: the job pins a knob that does not exist.
    """
    rows = _device_rows(job, DEFAULT_DEVICE_ROWS)
    tokens = rows * (longest_prompt_len + job.algorithm.max_completion_len)
    plain_generate = "use_vllm=False: transformers `generate`"
    return _table(
        job,
        {
            "rollout_concurrency": (
                None,
                f"steps_per_generation defaults to gradient_accumulation_steps: all "
                f"{job.algorithm.rollouts_per_step} rollouts are generated in one call",
            ),
            "share_prefill": (False, f"{plain_generate} gets every prompt num_generations times and prefills each"),
            "compact_finished": (False, f"{plain_generate} keeps finished rows until the last row has ended"),
            "rollout_dtype": ("bf16", "bf16=True: `generate` runs under the same autocast as training"),
            "train_dtype": ("bf16", "bf16=True: autocast over fp32 weights"),
            "layout": ("padded", "GRPOTrainer pads the whole generation batch once, before cutting it"),
            "micro_batch_tokens": (tokens, f"per_device_train_batch_size={rows} rows, padded"),
            "recompute": (True, "gradient_checkpointing=True"),
            "logprob_batch_tokens": _old_logprob_pass(job, tokens),
            "handover": ("copy", "one module for both sides under autocast: our bf16 copy, once a step, is its cast"),
        },
    )


def best_practice_levers(job: JobSpec, *, longest_prompt_len: int) -> tuple[Lever, ...]:
    """Return TRL's documented advice for one node: vLLM, larger micro-batches, no checkpointing when memory allows.

    ``longest_prompt_len`` is in tokens.

    Raises:
        JobError: the job pins a knob that does not exist.
    """
    rows = _device_rows(job, BEST_PRACTICE_DEVICE_ROWS)
    tokens = rows * (longest_prompt_len + job.algorithm.max_completion_len)
    fp32 = "bf16=True is advised for Ampere GPUs or newer; without one and at this size fp32 is the faster (measured)"
    return _table(
        job,
        {
            "rollout_concurrency": (None, "colocated vLLM gets max_num_seqs = the whole generation batch"),
            "share_prefill": (True, "use_vllm=True: prefix caching is on in vLLM"),
            "compact_finished": (True, "use_vllm=True: continuous batching"),
            "rollout_dtype": ("fp32", fp32),
            "train_dtype": ("fp32", fp32),
            "layout": ("padded", "packing and padding-free exist for SFT and DPO, not for GRPOTrainer"),
            "micro_batch_tokens": (tokens, f"per_device_train_batch_size={rows}, accumulation lowered to match"),
            "recompute": (False, "gradient_checkpointing=False: documented as about 20 % faster, memory allows it"),
            "logprob_batch_tokens": _vllm_logprob_pass(job, tokens),
            "handover": ("copy", "weights are pushed into vLLM's own copy before each generation"),
        },
    )


def expert_levers(job: JobSpec) -> tuple[Lever, ...]:
    """Return the strongest synchronous setting known by hand, TRL or not.

    Raises:
        JobError: the job pins a knob that does not exist.
    """
    fp32 = "bf16 took 1.3 to 1.8 times as long at about 1 M parameters on a CPU without AMX (measured)"
    return _table(
        job,
        {
            "rollout_concurrency": (None, "the whole batch fits in the KV cache"),
            "share_prefill": (True, "one prefill per prompt instead of one per rollout"),
            "compact_finished": (True, "no decoding of rows that have ended"),
            "rollout_dtype": ("fp32", fp32),
            "train_dtype": ("fp32", fp32),
            "layout": _strongest_layout(job),
            "micro_batch_tokens": (EXPERT_MICRO_BATCH_TOKENS, "flat from 1024 to 8192 positions (measured)"),
            "recompute": (False, "activations fit"),
            "logprob_batch_tokens": _old_logprob_pass(job, EXPERT_MICRO_BATCH_TOKENS),
            "handover": _cheapest_handover(job),
        },
    )


def _table(job: JobSpec, rows: dict[str, _Row]) -> tuple[Lever, ...]:
    """Return the levers in the order of `EngineKnobs`: those all baselines share added, the job's pins on top."""
    cores, num_replicas = job.devices.num_cores, _num_replicas(job)
    threads = (cores, f"torch uses every core by default; TRL leaves it so ({cores} here)")
    shared_out = (
        max(1, cores // num_replicas),
        f"every core, shared out to the {num_replicas} replicas that are pinned",
    )
    shared: dict[str, _Row] = {
        "rollout_engine": ("embedded", "the engine that is tuned; vLLM is pinned by its owner or not used"),
        "rollout_threads": threads if num_replicas == 1 else shared_out,
        "rollout_replicas": (1, "one process a device generates: a CPU is one device to `accelerate`"),
        "rollout_routing": ("round_robin", "nothing to choose between with one replica"),
        "train_threads": threads,
        "train_ranks": (1, "one process a device: a CPU is one device to `accelerate`"),
        "admit_order": ("arrival", "`generate` and vLLM take rows in the order they come"),
        "reuse_prefixes": (False, "the job has single turns: no prompt continues another"),
        "head_tile_tokens": (None, "TRL computes a micro-batch's logits together unless use_liger_kernel is set"),
        "compile": (False, "torch_compile=False; no advice of TRL's turns it on"),
        "offload": (False, "one memory on a CPU: a copy would free nothing"),
        "moe_dispatch": ("grouped", "transformers 5 computes experts by grouped products unless told otherwise"),
        "router_replay": (False, "GRPOTrainer lets the trained model route for itself"),
        "rollout_cores": (None, "no framework gives its sides CPU quotas"),
        "schedule": ("sync", "generate, then train: GRPOTrainer is synchronous"),
        "max_lag": (None, "a synchronous step's data has no age"),
        "inflight_update": (False, "a synchronous rollout is over before the update"),
        "partial_rollout": (None, "GRPOTrainer finishes every rollout that it begins"),
        "correction": (job.algorithm.correction.kind, "declared in the job's algorithm"),
    }
    pinned: dict[str, _Row] = {knob: (value, PINNED) for knob, value in job.knobs.pin.items()}
    chosen = rows | shared | pinned
    known = EngineKnobs.model_fields
    for knob in chosen.keys() - known.keys():
        raise JobError(
            explain(
                "`knobs.pin` names a knob the embedded engine does not have",
                got=f"`{knob}`",
                allowed=", ".join(known),
                hint=nearest(knob, known),
            )
        )
    return tuple(Lever(knob=knob, value=chosen[knob][0], why=chosen[knob][1]) for knob in known)


def _num_replicas(job: JobSpec) -> int:
    """Return the rollout replicas that the owner pins; no baseline has several of itself."""
    pinned = job.knobs.pin.get("rollout_replicas")
    return pinned if isinstance(pinned, int) and pinned > 1 else 1


def _cheapest_handover(job: JobSpec) -> _Row:
    if _num_replicas(job) > 1:
        return "copy", "replicas have processes of their own, which a copy through memory reaches"
    return "alias", "one process and one number format: nothing has to move"


def _strongest_layout(job: JobSpec) -> _Row:
    if can_share_prompts(job.model):
        return "shared_prefix", "no padding, and a group's prompt is trained once (1.5 times packed: bench/metadata.py)"
    return "packed", "no padding; a recurrent layer cannot continue a shared prompt"


def _old_logprob_pass(job: JobSpec, batch_tokens: int) -> _Row:
    if job.algorithm.num_updates == 1:
        return None, "one update per rollout batch: the training forward gives the old log-probs (TRL does the same)"
    return batch_tokens, "several updates per rollout batch need old log-probs from before the first"


def _vllm_logprob_pass(job: JobSpec, batch_tokens: int) -> _Row:
    if job.algorithm.correction.kind == "none":
        value, why = _old_logprob_pass(job, batch_tokens)
        return value, f"vllm_importance_sampling_correction=False, as the job declares none; {why}"
    return (
        batch_tokens,
        "vllm_importance_sampling_correction=True, as the job declares one: TRL then always runs a pass",
    )


def _rows_per_update(job: JobSpec) -> int:
    return job.algorithm.rollouts_per_step // job.algorithm.num_updates


def _device_rows(job: JobSpec, most: int) -> int:
    """Return the largest micro-batch of at most ``most`` rows that accumulates to exactly one update."""
    rows = _rows_per_update(job)
    return max(n for n in range(1, most + 1) if rows % n == 0)
