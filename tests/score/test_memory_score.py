import pytest

from steptune.published.memory_cases import MemoryCase, MemoryLabel, MemoryOutcome, MemoryPhase, memory_cases
from steptune.score.memory import Fits, always_fits, blinded, score_memory, sixteen_bytes

FIT = MemoryCase(
    id="fit",
    outcome=MemoryOutcome.FIT,
    label=MemoryLabel.CLEAR,
    source="a/b:c",
    framework="trl",
    stage="rl",
    model="8B",
    params_billions=8,
    gpu_type="H100",
    gpu_memory_gb=80,
    num_gpus=8,
    peak_gib=70,
)
OOM = FIT.model_copy(update={"id": "oom", "outcome": MemoryOutcome.OUT_OF_MEMORY, "phase": MemoryPhase.LOGITS})


def test_shares_are_of_their_own_class() -> None:
    score = score_memory("all", lambda case: Fits.NO, [FIT, OOM, OOM])
    assert (score.oom_caught_frac, score.fit_refused_frac) == (1.0, 1.0)
    assert (score.num_fit, score.num_oom) == (1, 2)


def test_too_close_catches_but_has_its_own_share() -> None:
    score = score_memory("careful", lambda case: Fits.TOO_CLOSE, [FIT, OOM])
    assert (score.oom_caught_frac, score.fit_refused_frac, score.too_close_frac) == (1.0, 0.0, 1.0)


def test_an_unanswered_case_catches_nothing() -> None:
    score = score_memory("silent", lambda case: Fits.UNKNOWN, [FIT, OOM])
    assert (score.oom_caught_frac, score.unknown_frac) == (0.0, 1.0)


def test_without_a_case_of_a_class_there_is_no_share() -> None:
    assert score_memory("fits", always_fits, [FIT]).oom_caught_frac is None


def test_the_model_sees_nothing_of_what_became_of_it() -> None:
    assert blinded(OOM) == blinded(FIT)
    assert all(blinded(case).peak_gib is blinded(case).note is None for case in memory_cases())


@pytest.mark.parametrize(
    ("update", "answer"),
    [
        ({}, Fits.YES),  # 8e9 x 16 B = 128 GB on 640 GB
        ({"num_gpus": 1}, Fits.NO),
        ({"num_gpus": 1, "is_lora": True}, Fits.YES),  # 16 GB of frozen weights
        ({"num_train_gpus": 1}, Fits.NO),
        ({"gpu_memory_gb": None}, Fits.UNKNOWN),
    ],
)
def test_sixteen_bytes_a_parameter_over_the_training_devices(update: dict[str, object], answer: Fits) -> None:
    assert sixteen_bytes(FIT.model_copy(update=update)) is answer
