"""Settings as layouts, and the forecast as a finding."""

from typing import Any

import pytest

from steptune.core.errors import DeviceError, ModelError
from steptune.core.finding import Severity
from steptune.core.paste import DeviceClaim, Paste
from steptune.core.profile import Origin
from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.layout import JobLayout, Place
from steptune.memory.expected import expected_memory, stated_layout
from steptune.memory.foreseen import foreseen_finding
from steptune.memory.settings import view_of
from steptune.memory.stated.asked import LayoutError, num_bytes
from steptune.published.declared import normal_key
from steptune.published.keys import known_keys

VERL = {
    "actor_rollout_ref.model.path": "Qwen/Qwen2.5-7B-Instruct",
    "data.max_prompt_length": 1024,
    "data.max_response_length": 3072,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
    "trainer.n_gpus_per_node": 8,
}

NEMO = {
    "policy.model_name": "Qwen/Qwen3-8B",
    "policy.max_total_sequence_length": 4096,
    "policy.train_micro_batch_size": 1,
    "cluster.gpus_per_node": 8,
}

TRL = {"model_name_or_path": "Qwen/Qwen2.5-1.5B", "max_completion_length": 1536, "num_processes": 8}


def layout_of(paste: Paste, num_devices: int | None = None) -> JobLayout:
    return stated_layout(paste, view_of(paste), num_devices)


def on(paste: Paste, name: str, memory_gib: float | None = None) -> Paste:
    """Return the paste with a device named on its third line."""
    claim = DeviceClaim(name=name, memory_gib=memory_gib, origin=Origin(path="run.sh", line=3, key="devices"))
    return paste.model_copy(update={"devices": claim})


def test_verls_defaults_become_an_fsdp_layout(oom_paste: Any) -> None:
    layout = layout_of(oom_paste(framework="verl", settings=VERL))
    train = layout.train
    assert (train.sharding, train.weight_bytes, train.has_master, train.recompute) == ("full", 4, False, "full")
    assert (train.num_devices, train.micro_tokens, train.longest) == (8, 4 * 4096, 4096)
    assert layout.rollout is not None
    assert (layout.rollout.tensor, layout.rollout.share, layout.rollout.sleeps) == (2, 0.5, True)


def test_verls_offload_waits_between_the_phases_and_fsdp2s_stays_on_the_host(oom_paste: Any) -> None:
    config = "actor_rollout_ref.actor.fsdp_config"
    waits = layout_of(oom_paste(framework="verl", settings={**VERL, f"{config}.optimizer_offload": True})).train
    stays = layout_of(oom_paste(framework="verl", settings={**VERL, f"{config}.offload_policy": True})).train
    assert (waits.optimizer, waits.weights) == (Place.IDLE_HOST, Place.DEVICE)
    assert (stays.optimizer, stays.weights) == (Place.HOST, Place.HOST)


def test_a_token_budget_is_of_one_device_and_a_sequence_may_span_several(oom_paste: Any) -> None:
    settings = {
        **VERL,
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": 10_000,
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size": 2,
    }
    train = layout_of(oom_paste(framework="verl", settings=settings)).train
    assert (train.micro_tokens, train.context) == (20_000, 2)


def test_megatron_settings_become_a_distributed_optimizer(oom_paste: Any) -> None:
    config = "actor_rollout_ref.actor.megatron"
    settings = {
        **VERL,
        f"{config}.tensor_model_parallel_size": 4,
        f"{config}.pipeline_model_parallel_size": 2,
        f"{config}.override_transformer_config.recompute_granularity": "full",
        "trainer.nnodes": 2,
    }
    train = layout_of(oom_paste(framework="verl", settings=settings)).train
    assert (train.sharding, train.tensor, train.pipeline, train.recompute) == ("optimizer", 4, 2, "full")
    assert (train.num_devices, train.grads_stay, train.has_fused_kernels) == (16, True, True)


def test_nemo_rl_moves_the_trainer_to_the_host_while_the_engine_generates(oom_paste: Any) -> None:
    layout = layout_of(oom_paste(framework="nemo_rl", settings=NEMO))
    assert layout.train.weights is Place.IDLE_HOST
    assert layout.train.recompute == "none"
    apart = {
        **NEMO,
        "policy.generation.colocated.enabled": False,
        "policy.generation.colocated.resources.num_nodes": 1,
        "policy.generation.colocated.resources.gpus_per_node": 8,
        "cluster.num_nodes": 3,
    }
    layout = layout_of(oom_paste(framework="nemo_rl", settings=apart))
    assert (layout.is_colocated, layout.train.num_devices, layout.train.weights) == (False, 16, Place.DEVICE)


def test_a_recipe_that_stands_on_another_is_asked_for_what_it_leaves_out(oom_paste: Any) -> None:
    for key in ("cluster.gpus_per_node", "policy.train_micro_batch_size", "policy.max_total_sequence_length"):
        paste = oom_paste(framework="nemo_rl", settings={k: v for k, v in NEMO.items() if k != key})
        with pytest.raises(LayoutError, match=key.replace(".", r"\.")):
            layout_of(paste)


def test_trl_trains_fp32_weights_on_every_device_unless_told(oom_paste: Any) -> None:
    layout = layout_of(oom_paste(framework="trl", settings=TRL))
    assert (layout.train.sharding, layout.train.weight_bytes, layout.rollout) == ("none", 4, None)
    assert layout.train.micro_tokens == 8 * (512 + 1536)
    assert layout.train.logits_tokens == 8 * 1537
    vllm = {**TRL, "use_vllm": True, "vllm_mode": "colocate"}
    rollout = layout_of(oom_paste(framework="trl", settings=vllm)).rollout
    assert rollout is not None
    assert (rollout.share, rollout.sleeps) == (0.3, False)


def test_adapters_in_four_bits_are_counted_so(oom_paste: Any) -> None:
    settings = {**TRL, "use_peft": True, "lora_r": 8, "load_in_4bit": True, "beta": 0.04}
    train = layout_of(oom_paste(framework="trl", settings=settings)).train
    assert (train.lora_rank, train.weight_bytes, train.reference) == (8, 0.5, None)


def test_trl_without_a_number_of_devices_asks_for_it(oom_paste: Any) -> None:
    paste = oom_paste(framework="trl", settings={k: v for k, v in TRL.items() if k != "num_processes"})
    with pytest.raises(LayoutError, match="num_processes"):
        layout_of(paste)
    assert layout_of(paste, 4).train.num_devices == 4


def test_what_is_missing_is_named(oom_paste: Any) -> None:
    paste = oom_paste(framework="verl", settings=VERL)
    with pytest.raises(DeviceError, match="--device"):
        expected_memory(paste)
    with pytest.raises(DeviceError, match="H9000"):
        expected_memory(paste, device="H9000")
    with pytest.raises(ModelError, match="Snowball"):
        expected_memory(paste, device="H100", model="Snowball 67B")
    with pytest.raises(LayoutError, match="settings"):
        expected_memory(oom_paste("out of memory"), device="H100")


def test_the_finding_has_a_line_a_phase_and_the_lines_it_stands_on(oom_paste: Any) -> None:
    finding = foreseen_finding(on(oom_paste(framework="verl", settings=VERL), "H100"))
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "qwen2.5-7b on H100: fits" in finding.title
    assert [fact.text.split()[0] for fact in finding.evidence] == [
        "model",
        "device",
        "rollout",
        "logprob",
        "train",
        "step",
        "sync",
        "cache",
    ]
    assert all(fact.origin is not None for fact in finding.evidence[:2])


def test_what_does_not_fit_is_a_warning_with_the_smallest_change(oom_paste: Any) -> None:
    finding = foreseen_finding(on(oom_paste(framework="verl", settings=VERL), "A100", 40))
    assert finding is not None
    assert "A100 40GB" in finding.title
    assert finding.severity is Severity.WARNING
    assert "chunked loss" in finding.remedies[0].text


def test_what_a_driver_reported_in_the_input_is_the_capacity(oom_paste: Any) -> None:
    paste = on(oom_paste(framework="verl", settings=VERL), "A100", 39.39)
    assert expected_memory(paste).fit.capacity.value == pytest.approx(39.39 * BYTES_PER_GIB)


def test_an_unresolved_or_unknown_input_gives_no_finding(oom_paste: Any) -> None:
    assert foreseen_finding(oom_paste(framework="verl", settings=VERL)) is None
    assert foreseen_finding(on(oom_paste(framework="slime", settings={"hf-checkpoint": "Qwen3-8B"}), "H100")) is None
    assert foreseen_finding(on(oom_paste("text"), "H100")) is None


@pytest.mark.parametrize(
    ("word", "expected"), [("fp32", 4), ("float32", 4), ("bfloat16", 2), ("half", 2), ("fp8", 1), ("auto", 7), ("", 7)]
)
def test_number_types_have_their_bytes(word: str, expected: float) -> None:
    assert num_bytes(word, 7) == expected


def test_every_key_that_is_asked_for_exists() -> None:
    import re
    from pathlib import Path

    from steptune.memory import stated

    folder = Path(stated.__file__).parent
    for name in ("verl", "nemo_rl", "trl"):
        text = (folder / f"{name}.py").read_text()
        prefixes = dict(re.findall(r'^([A-Z]+) = "(.+)"$', text, re.MULTILINE))
        known = {normal_key(key) for key in known_keys(name)}
        for prefix, key in re.findall(r'f"\{([A-Z]+)\}\.([a-z_.]+)"', text):
            full = normal_key(f"{prefixes[prefix]}.{key}")
            is_free = ".override_" in full  # a mapping that takes any key
            assert is_free or any(one == full or one.startswith(full + ".") for one in known), full
