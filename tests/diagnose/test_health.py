import math
from collections.abc import Sequence

import pytest
from paste_cases import paste, series, settings

from steptune.core.finding import Finding, FindingKind, Severity
from steptune.core.paste import Paste, Series, ValueStatus
from steptune.diagnose.health import health
from steptune.diagnose.job import read_job


def signs(*given: Series) -> dict[str, Finding]:
    return found(paste(series=given))


def found(given: Paste) -> dict[str, Finding]:
    signs = {f.code.removeprefix("health/"): f for f in health(read_job(given))}
    assert all(f.kind is FindingKind.HEALTH and f.share is None and f.evidence for f in signs.values())
    return signs


def test_a_healthy_run_has_no_sign() -> None:
    assert (
        signs(
            series("reward", 0.30, 0.31, 0.29, 0.32, 0.31, 0.33),
            series("reward_std", 0.2, 0.2, 0.19),
            series("entropy", 0.5, 0.48, 0.47, 0.49),
            series("completion_mean", 800.0, 810.0, 790.0, 805.0),
            series("clipped_frac", 0.02, 0.03),
            series("grad_norm", 0.1, 0.2),
        )
        == {}
    )


@pytest.mark.parametrize(
    ("name", "values", "is_dead"),
    [
        ("zero_std_frac", (1.0, 1.0, 1.0), True),
        ("reward_std", (0.0, 0.0), True),
        ("reward_std", (0.0, 0.01), False),
        ("reward", (0.0, 0.0, 0.0), False),  # a mean of 0 may hide a spread: -1 and 1
    ],
)
def test_a_reward_without_spread_is_dead(name: str, values: tuple[float, ...], is_dead: bool) -> None:
    assert ("dead_reward" in signs(series(name, *values))) is is_dead


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("zero_std_frac", (1.0, 0.9, 1.0), "96.7 % of the groups of 3 steps"),
        ("zero_std_frac", (0.805,), "80.5 % of the groups of this one step"),
        ("zero_std_frac", (0.5, 0.5, 0.5), None),
        ("reward_std", (0.0, 0.2, 0.0, 0.0, 0.2, 0.2, 0.2, 0.2), "3 of 8 steps (38%)"),
        ("reward_std", (0.0, 0.2, 0.0, 0.2), None),  # two of four steps may be chance
        ("reward_std", (0.0, *[0.2] * 9), None),
    ],
)
def test_many_groups_without_spread_are_waste_and_no_dead_run(
    name: str, values: tuple[float, ...], says: str | None
) -> None:
    found = signs(series(name, *values)).get("dead_reward")
    assert (found is None) is (says is None)
    if found is not None and says is not None:
        assert found.severity is Severity.WARNING
        assert says in found.title
        assert "Dead run" not in found.title


@pytest.mark.parametrize(
    ("key", "norms", "spreads", "fires"),
    [
        ("grad_norm", (0.0,), (0.4,), True),
        ("grad_norm", (0.0, 0.0, 0.0), (0.4, 0.2, 0.3), True),
        ("grad_norm", (0.0, 0.0, 0.1), (0.4, 0.2, 0.3), False),
        ("grad_norm", (0.0, 0.0, 0.0), (0.4, 0.0, 0.3), False),  # a flat step has no gradient, rightly
        ("actor/grad_norm", (0.0, 0.0, 0.0), (0.4, 0.2, 0.3), False),  # three decimals: 0.000 may be 0.0004
    ],
)
def test_a_gradient_of_exactly_0_beside_rewards_that_differ_is_told(
    key: str, norms: tuple[float, ...], spreads: tuple[float, ...], fires: bool
) -> None:
    found = signs(series("grad_norm", *norms, key=key), series("reward_std", *spreads))
    assert ("no_gradient" in found) is fires


@pytest.mark.parametrize(
    ("name", "values", "fires"),
    [
        ("loss", (0.1, math.inf), True),
        ("kl_ref", (math.inf, 0.1), True),
        ("grad_norm", (math.inf, 0.1), False),  # scaled fp16 skips the step
        ("completion_mean", (math.inf, 0.1), False),
    ],
)
def test_an_infinite_loss_breaks_a_run_and_a_skipped_step_does_not(
    name: str, values: tuple[float, ...], fires: bool
) -> None:
    found = signs(series(name, *values)).get("nan")
    assert (found is not None) is fires
    if found is not None:
        assert found.title.startswith("Infinite values")


def test_one_low_entropy_is_a_note_and_no_collapse() -> None:
    once = signs(series("entropy", 0.004))["entropy_collapse"]
    assert once.severity is Severity.INFO
    assert "one step that is here" in once.title
    assert signs(series("entropy", 0.004, 0.003, 0.004))["entropy_collapse"].severity is Severity.WARNING


def test_the_share_of_cut_answers_of_one_step_is_said_to_be_of_one() -> None:
    assert "in the one step that is here" in signs(series("clipped_frac", 0.6))["truncation"].title
    assert "one step" not in signs(series("clipped_frac", 0.6, 0.6))["truncation"].title


def test_one_dead_step_is_not_called_a_dead_run() -> None:
    assert signs(series("zero_std_frac", 1.0))["dead_reward"].severity is Severity.WARNING
    assert signs(series("zero_std_frac", 1.0, 1.0))["dead_reward"].severity is Severity.FAULT


@pytest.mark.parametrize(("cut", "severity"), [(0.1, None), (0.46, Severity.WARNING), (0.897, Severity.FAULT)])
def test_cut_answers(cut: float, severity: Severity | None) -> None:
    sign = signs(series("clipped_frac", cut)).get("truncation")
    assert (None if sign is None else sign.severity) is severity


def test_one_spike_of_cut_answers_in_a_long_run_is_no_state() -> None:
    assert signs(series("clipped_frac", 0.02, 0.6, 0.02, 0.03, 0.02)) == {}
    assert signs(series("clipped_frac", 7.0)) == {}


def test_cut_answers_name_the_limit() -> None:
    given = paste(series=(series("clipped_frac", 0.9),), settings=settings(data__max_response_length=4096))
    assert found(given)["truncation"].evidence[1].text == "data.max_response_length=4096"


def test_a_fine_sample_size_does_not_hide_answers_that_never_end() -> None:
    sick = signs(series("clipped_frac", 0.984), series("ess_frac", 0.989))
    assert "looks fine (0.989)" in sick["low_completion"].title
    assert "low_completion" not in signs(series("clipped_frac", 0.984), series("ess_frac", 0.2))
    assert "low_completion" not in signs(series("clipped_frac", 0.1), series("ess_frac", 0.989))


@pytest.mark.parametrize("name", ["loss", "grad_norm", "entropy", "reward"])
def test_nan_in_a_vital_series_is_a_fault(name: str) -> None:
    assert signs(series(name, 0.1, math.nan))["nan"].severity is Severity.FAULT


def test_nan_in_a_metric_that_need_not_exist_is_no_fault() -> None:
    assert "nan" not in signs(series("val-core/acc", math.nan), series("loss", 0.1))


def test_vanished_entropy_with_exploding_answers_is_a_collapse() -> None:
    longer = series("completion_mean", 300.0, 500.0, 900.0, 2000.0, 4000.0)
    both = signs(series("entropy", 0.4, 0.1, 0.01, 0.001, 0.001), longer)
    assert "entropy_collapse" not in signs(series("entropy", 0.4, 0.3, 0.35, 0.3), longer)
    now = signs(series("entropy", 0.002, 0.001, 0.001, 0.001), longer)["entropy_collapse"]
    assert now.severity is Severity.FAULT
    assert "entropy_collapse" not in both or both["entropy_collapse"].severity is Severity.FAULT
    assert signs(series("entropy", 0.002, 0.001, 0.001))["entropy_collapse"].severity is Severity.WARNING


@pytest.mark.parametrize("value", [0.0, 0.0967, 0.323])
def test_an_entropy_of_zero_is_not_computed_and_small_ones_are_normal(value: float) -> None:
    assert signs(series("entropy", value, value)) == {}


def test_growing_answers_are_information() -> None:
    assert signs(series("completion_mean", 300, 400, 500, 700, 900))["length_growth"].severity is Severity.INFO
    assert signs(series("completion_mean", 300, 900)) == {}


def test_a_falling_reward() -> None:
    assert "reward_drop" in signs(series("reward", 0.60, 0.59, 0.58, 0.40, 0.33, 0.30, 0.22, 0.21, 0.20))
    assert "reward_drop" not in signs(series("reward", 0.20, 0.30, 0.25, 0.40, 0.33, 0.50))
    assert "reward_drop" not in signs(series("reward", 0.60, 0.20))


def test_implausible_values_are_no_sign() -> None:
    assert signs(series("clipped_frac", 0.9, status=ValueStatus.IMPLAUSIBLE)) == {}


@pytest.mark.parametrize(
    ("high", "low", "is_dead"),
    [
        (("critic/advantages/max", 0.0), ("critic/advantages/min", 0.0), True),
        (("train/advantage_max", 0.0), ("train/advantage_min", 0.0), True),
        (("critic/advantages/max", 1.79), ("critic/advantages/min", -1.79), False),
        (("critic/advantages/max", 0.7), ("critic/advantages/min", 0.7), False),
        (("critic/score/max", 0.1), ("critic/score/min", 0.1), True),
        (("critic/rewards/max", 1.0), ("critic/rewards/min", 0.0), False),
    ],
)
def test_without_spread_nothing_is_learnt(high: tuple[str, float], low: tuple[str, float], is_dead: bool) -> None:
    given = [series(key, value, value, key=key) for key, value in (high, low)]
    assert ("dead_reward" in signs(*given)) is is_dead


def test_a_mean_advantage_of_zero_or_a_critic_proves_nothing() -> None:
    assert signs(series("critic/advantages/mean", 0.0, 0.0), series("critic/advantages/max", 0.0, 0.0)) == {}
    equal = (series("critic/score/max", 1.0), series("critic/score/min", 1.0))
    assert "In the one step" in signs(*equal)["dead_reward"].title
    assert signs(*equal, series("critic/vf_loss", 0.2)) == {}


def test_a_jump_between_two_runs_is_no_trend_of_either() -> None:
    steps = [*range(1, 9), *range(1, 9)]
    for name, values in {"completion_mean": [200.0] * 8 + [500.0] * 8, "reward": [0.9] * 8 + [0.2, 0.21] * 4}.items():
        one = series(name, *values)
        points = tuple(p.model_copy(update={"step": at}) for p, at in zip(one.points, steps, strict=True))
        assert signs(one.model_copy(update={"points": points})) == {}


def test_the_level_of_cut_answers_is_quoted_with_its_range() -> None:
    sign = signs(series("clipped_frac", 0.6, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0))["truncation"]
    assert sign.title.startswith("100 % of the answers")
    assert any("60 % to 100 % over n=10 steps" in fact.text for fact in sign.evidence)


@pytest.mark.parametrize(
    ("key", "is_sick"),
    [
        ("critic/vf_loss", True),
        ("critic/grad_norm", True),
        ("train/value_loss", True),
        ("critic/values/mean", True),
        ("loss/mean", True),
        ("val/loss", False),
        ("eval_loss", False),
        ("completions/mean_terminated_length", False),
        ("critic/vf_explained_var", False),
    ],
)
def test_nan_of_any_trained_part_is_told_and_of_held_out_or_side_metrics_is_not(key: str, is_sick: bool) -> None:
    found = signs(series(key, math.nan), series("reward", 0.3))
    assert ("nan" in found) is is_sick
    assert not is_sick or key in found["nan"].title


@pytest.mark.parametrize(
    ("lengths", "others", "is_told"),
    [
        ((512.0, 512.0, 512.0), (), True),
        ((512.0, 512.0, 511.5), (), False),
        ((511.5, 511.5, 511.5), (), False),  # a mean that is no whole number is one of different lengths
        ((512.0, 512.0), (), False),
        ((1.0, 1.0, 1.0), (), False),  # one-word answers
        ((512.0, 512.0, 512.0), (series("clipped_frac", 0.0, 0.0, 0.0),), False),
    ],
)
def test_answers_of_one_length_are_told_beside_a_dead_reward(
    lengths: tuple[float, ...], others: tuple[Series, ...], is_told: bool
) -> None:
    length = series("completion_mean", *lengths)
    for dead in ((series("reward_std", 0.0, 0.0, 0.0),), (series("reward", 0.0, 0.0, 0.0), series("loss", 0.0, 0.0))):
        told = signs(*dead, length, *others)["dead_reward"]
        assert any("of one length" in fact.text for fact in told.evidence) is is_told


RISING_S = (60, 64, 68, 72, 80, 90, 110, 130, 150, 170)


def test_longer_steps_with_answers_as_long_as_before_are_named() -> None:
    told = signs(series("step_time", *RISING_S), series("completion_mean", *[1500.0] * 10))["slowing"]
    assert told.severity is Severity.WARNING
    # thirds of ten are three steps: (60 + 64 + 68) / 3 = 64 s, (130 + 150 + 170) / 3 = 150 s
    assert "1 m 04 s to 2 m 30 s" in told.title


@pytest.mark.parametrize(
    ("seconds", "tokens"),
    [
        (RISING_S, [1500 * s / 60 for s in RISING_S]),  # the answers grow with them
        (RISING_S[:8], [1500] * 8),  # too few steps
        ((60, 170, 61, 59, 150, 60, 62, 140, 61, 60), [1500] * 10),  # slow steps, no trend
        (RISING_S, []),  # nobody knows the work
    ],
)
def test_longer_steps_are_not_named_without_a_trend_at_known_lengths(
    seconds: Sequence[float], tokens: Sequence[float]
) -> None:
    lengths = (series("completion_mean", *tokens),) if tokens else ()
    assert "slowing" not in signs(series("step_time", *seconds), *lengths)
