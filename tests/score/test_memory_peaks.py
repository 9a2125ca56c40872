import pytest

from steptune.published.memory_cases import MemoryCase, MemoryLabel, MemoryOutcome, memory_cases
from steptune.score.footprint_arm import footprint_answer, footprint_peak_gib
from steptune.score.memory import Fits
from steptune.score.peaks import PeakModel, peak_lines, sixteen_bytes_gib, whole_card_gib

FIT = MemoryCase(
    id="fit",
    outcome=MemoryOutcome.FIT,
    label=MemoryLabel.CLEAR,
    source="huggingface/trl:x",
    framework="trl",
    stage="rl",
    model="8B",
    params_billions=8,
    gpu_memory_gb=80,
    num_gpus=8,
    peak_gib=40,
)


def case(**update: object) -> MemoryCase:
    return FIT.model_copy(update=update)


def constant(gib: float | None) -> PeakModel:
    return lambda asked: gib


def test_an_error_is_a_factor_whichever_way_it_points() -> None:
    (low,), (high,) = (peak_lines([("arm", constant(gib))], [FIT]) for gib in (20, 80))
    assert low.median_frac == pytest.approx(1.0)
    assert high.median_frac == pytest.approx(1.0)
    assert (low.above_frac, high.above_frac) == (0.0, 1.0)


def test_only_what_fitted_and_states_its_peak_is_asked() -> None:
    (line,) = peak_lines(
        [("arm", constant(40))],
        [FIT, case(peak_gib=None), case(outcome=MemoryOutcome.OUT_OF_MEMORY), case(label=MemoryLabel.WEAK)],
    )
    assert (line.num_asked, line.num_answered) == (1, 1)


def test_an_arm_that_cannot_say_has_no_error() -> None:
    (line,) = peak_lines([("arm", constant(None))], [FIT])
    assert (line.median_frac, line.num_answered, line.num_asked) == (None, 0, 1)


def test_kinds_of_job_weigh_the_same() -> None:
    (line,) = peak_lines([("arm", constant(40))], [FIT] * 9 + [case(stage="sft", peak_gib=20)])
    assert line.num_groups == 2
    assert line.above_frac == pytest.approx(0.5)


def test_sides_are_apart() -> None:
    lines = peak_lines([("arm", constant(40))], [FIT, case(source="nvidia-nemo/rl:x")])
    assert [line.side for line in lines] == ["fit", "test"]


def test_the_trivial_peaks() -> None:
    assert whole_card_gib(FIT) == 80
    assert sixteen_bytes_gib(FIT) == pytest.approx(16e9 / 2**30)
    assert sixteen_bytes_gib(case(is_lora=True)) == pytest.approx(2e9 / 2**30)
    assert sixteen_bytes_gib(case(num_gpus=None)) is None


def test_no_arm_sees_the_peak() -> None:
    seen: list[float | None] = []
    peak_lines([("arm", lambda asked: seen.append(asked.peak_gib))], [FIT])
    assert seen == [None]


def test_where_the_footprint_forecasts_a_peak_it_also_answers() -> None:
    forecast = [
        asked for asked in memory_cases() if asked.gpu_memory_gb is not None and footprint_peak_gib(asked) is not None
    ]
    assert len(forecast) > 50
    assert all(footprint_answer(asked) is not Fits.UNKNOWN for asked in forecast)


def test_a_trainer_alone_needs_no_card_size() -> None:
    trainer = case(
        framework="prime_rl", model="Qwen3-0.6B", sharding="fsdp", recompute="full", micro_batch=1, max_total_len=4096
    )
    alone = {"placement": "trainer only", "gpu_memory_gb": None}
    assert footprint_peak_gib(trainer.model_copy(update=alone)) == footprint_peak_gib(
        trainer.model_copy(update={**alone, "gpu_memory_gb": 40})
    )
    assert footprint_peak_gib(trainer.model_copy(update={**alone, "placement": "colocated"})) is None
