"""A hybrid runs wherever the dense model does: SFT, rollout, training, resume of its states between steps."""

from pathlib import Path

import pytest
from loop_cases import small_job, small_loop

from steptune.adapters.embedded.knobs import knob_specs
from steptune.core.job import JobSpec, SftSpec
from steptune.core.model import HybridModel
from steptune.engine.sft import sft_train
from steptune.store.job_file import load_job

TINY = HybridModel(
    d_model=16, num_heads=2, num_kv_heads=1, head_dim=8, d_ff=16, linear_key_heads=1, linear_value_heads=2,
    linear_key_dim=8, linear_value_dim=8,
)  # fmt: skip
JOB = small_job().model_copy(update={"model": TINY, "sft": SftSpec(num_steps=3, batch_size=8)})

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("layout", ["padded", "sorted", "packed"])
def test_rollout_and_trainer_of_a_hybrid_agree_up_to_rounding(tmp_path: Path, layout: str) -> None:
    loop = small_loop(JOB, tmp_path, layout=layout, share_prefill=True, compact_finished=True)
    steps = [loop.step() for _ in range(2)]
    loop.close()
    for step in steps:
        assert step.mismatch is not None
        assert step.mismatch.k3 < 1e-6


def test_sft_trains_every_part_of_a_linear_layer() -> None:
    before, after = sft_train(JOB.model_copy(update={"sft": SftSpec(num_steps=0)})), sft_train(JOB)
    for name in ("inputs.weight", "conv", "log_rate", "rate_bias", "norm.weight", "out.weight"):
        changed = (after[f"blocks.0.attention.{name}"] - before[f"blocks.0.attention.{name}"]).abs()
        assert float(changed.max()) > 0, name


def test_only_every_fourth_layer_keeps_keys_and_values() -> None:
    assert [TINY.has_full_attention(layer) for layer in range(8)] == [False, False, False, True] * 2


def test_the_tuner_does_not_offer_a_shared_prompt_to_a_hybrid() -> None:
    def layouts(job: JobSpec) -> tuple[object, ...]:
        return next(spec.values for spec in knob_specs(job) if spec.name == "layout")

    assert "shared_prefix" in layouts(small_job())
    assert "shared_prefix" not in layouts(JOB)


def test_the_example_resolves_to_a_hybrid() -> None:
    job: JobSpec = load_job(EXAMPLES / "math-hybrid.toml")
    assert isinstance(job.model, HybridModel)
    assert job.model.rotary_width == 8
