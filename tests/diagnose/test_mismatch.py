import pytest
from paste_cases import gpus, paste, series, settings

from steptune.core.finding import Finding, FindingKind, Severity
from steptune.core.paste import Paste
from steptune.diagnose.job import read_job
from steptune.diagnose.mismatch import mismatch


def found(given: Paste) -> dict[str, Finding]:
    signs = {f.code.removeprefix("mismatch/"): f for f in mismatch(read_job(given))}
    assert all(f.kind is FindingKind.MISMATCH and f.share is None for f in signs.values())
    return signs


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("mismatch_k3", 0.0014, None),
        ("mismatch_k3", 0.02, Severity.WARNING),
        ("mismatch_k3", 0.8, Severity.FAULT),
        ("mismatch_k1", -0.2, Severity.FAULT),
        ("mismatch_mean_abs", 0.01, None),
        ("mismatch_mean_abs", 0.036, Severity.WARNING),
        ("mult_prob_error", 1.01, None),
        ("mult_prob_error", 1.06, Severity.WARNING),
        ("mult_prob_error", 464.0, Severity.FAULT),
        ("is_ratio_mean", 1.0, None),
        ("is_ratio_mean", 0.57, Severity.WARNING),
        ("is_ratio_mean", 2.5, Severity.FAULT),
        ("ess_frac", 0.989, None),
        ("ess_frac", 0.25, Severity.FAULT),
        ("training/rollout_probs_diff_mean", 0.02, Severity.WARNING),
    ],
)
def test_levels_are_judged_by_public_scales(name: str, value: float, severity: Severity | None) -> None:
    sign = found(paste(series=(series(name, value),))).get("high")
    assert (None if sign is None else sign.severity) is severity


def test_one_spike_is_tolerated() -> None:
    assert found(paste(series=(series("mismatch_k3", 0.001, 0.001, 0.9, 0.001, 0.001),))) == {}


def test_a_fine_level_that_grows_is_found() -> None:
    rising = series("mismatch_k3", 0.0010, 0.0011, 0.0012, 0.0014, 0.0016, 0.0018)
    assert "growing" in found(paste(series=(rising,)))
    slow = series("mismatch_k3", 0.00100, 0.00101, 0.00103, 0.00104, 0.00106, 0.00108)
    assert found(paste(series=(slow,))) == {}


def test_growth_of_a_ratio_is_that_of_its_distance_from_one() -> None:
    # 1.010 -> 1.020 is twice the error, though the ratio itself grew 1 %
    assert "growing" in found(paste(series=(series("mult_prob_error", 1.010, 1.012, 1.014, 1.016, 1.018, 1.020),)))


def test_a_clip_range_below_noise() -> None:
    keys = {"loss_fn__ratio_clip_min": 3e-4, "loss_fn__ratio_clip_max": 4e-4}
    tight = found(paste(framework="nemo_rl", settings=settings(**keys)))["tight_clip"]
    assert "0.0003 and 0.0004" in tight.title
    assert found(paste(settings=settings(loss_fn__ratio_clip_min=0.2))) == {}
    assert found(paste(settings=settings(loss_fn__ratio_clip_min=0))) == {}


def test_a_clip_range_of_whole_answers_may_be_tight() -> None:
    keys = {"loss_fn__ratio_clip_min": 3e-4, "loss_fn__sequence_level_importance_ratios": True}
    tight = found(paste(framework="nemo_rl", settings=settings(**keys)))["tight_clip"]
    assert tight.severity is Severity.INFO
    assert "usual for ratios of whole answers" in tight.title


def test_a_level_from_one_step_is_said_to_be_of_one() -> None:
    once = found(paste(series=(series("mismatch_k3", 0.9),)))["high"]
    assert "one step only" in once.evidence[0].text
    twice = found(paste(series=(series("mismatch_k3", 0.9, 0.9),)))["high"]
    assert "median of the last 2 steps" in twice.evidence[0].text


def test_a_low_ratio_under_truncated_sampling_is_the_kept_mass() -> None:
    given = paste(series=(series("is_ratio_mean", 0.896),), settings=settings(actor_rollout_ref__rollout__top_p=0.8))
    signs = found(given)
    assert "top_p=0.8" in signs["sampling_params"].title
    assert "high" not in signs


@pytest.mark.parametrize("values", [{"top_p": 1.0}, {"top_k": -1}, {"top_p": True}])
def test_full_sampling_explains_nothing(values: dict[str, object]) -> None:
    signs = found(paste(framework="trl", series=(series("is_ratio_mean", 0.85),), settings=settings(**values)))
    assert set(signs) == {"high"}


def test_a_new_device_without_correction_needs_its_own_baseline() -> None:
    off = settings(loss_fn__use_importance_sampling_correction=False)
    assert "GB200" in found(paste(framework="nemo_rl", settings=off, devices=gpus("GB200")))["hardware"].title
    assert found(paste(framework="nemo_rl", settings=off, devices=gpus("H100"))) == {}
    on = settings(loss_fn__use_importance_sampling_correction=True)
    assert found(paste(framework="nemo_rl", settings=on, devices=gpus("GB200"))) == {}
