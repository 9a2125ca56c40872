"""Rewards that are all equal without a printed spread."""

import pytest
from paste_cases import paste, series

from steptune.core.finding import Finding, Severity
from steptune.core.paste import Series
from steptune.diagnose.health import health
from steptune.diagnose.job import read_job


def dead(*given: Series) -> Finding | None:
    return next((f for f in health(read_job(paste(series=given))) if f.code == "health/dead_reward"), None)


@pytest.mark.parametrize("level", [0.0, 1.0])
@pytest.mark.parametrize("other", ["loss", "grad_norm"])
def test_a_reward_at_an_end_of_its_scale_without_any_update_is_dead(level: float, other: str) -> None:
    once = dead(series("reward", level), series(other, 0.0))
    assert once is not None
    assert once.severity is Severity.WARNING
    assert "both signs" in once.title
    run = dead(series("reward", *[level] * 4), series(other, *[0.0] * 4))
    assert run is not None
    assert run.severity is Severity.FAULT


@pytest.mark.parametrize(
    "given",
    [
        (series("reward", 0.34), series("loss", 0.0), series("grad_norm", 0.0)),
        (series("reward", 0.0), series("loss", 0.0), series("grad_norm", 0.4)),
        (series("reward", 0.0), series("loss", -0.01)),
        (series("reward", 0.0), series("loss", 0.0), series("reward_std", 0.44)),
        (series("reward", 0.0), series("loss", 0.0), series("zero_std_frac", 0.5)),
        (
            series("reward", 0.0),
            series("loss", 0.0),
            series("critic/score/max", 1.0),
            series("critic/score/min", -1.0),
        ),
        (series("reward", 0.0, 0.2, 0.0), series("loss", 0.0, 0.0, 0.0)),
    ],
)
def test_a_level_that_is_inside_or_shows_a_spread_or_an_update_is_alive(given: tuple[Series, ...]) -> None:
    assert dead(*given) is None


def test_groups_counted_as_flat_at_the_mean_of_all_are_dead() -> None:
    flat = series("rollout/zero_std/count_0", 8.0)
    found = dead(flat, series("rollout/raw_reward", 0.0))
    assert found is not None
    assert any("count_0 8" in fact.text for fact in found.evidence)
    assert dead(series("rollout/zero_std/count_1.0", 4.0), series("reward", 1.0)) is not None
    assert dead(flat, series("rollout/raw_reward", 0.375)) is None
    assert dead(series("rollout/zero_std/count_1", 3.0), series("rollout/raw_reward", 0.0)) is None


def test_a_reward_that_is_normalised_within_groups_proves_nothing() -> None:
    normalised = series("reward", 0.0, key="rollout/rewards")
    assert dead(normalised, series("rollout/raw_reward", 0.375), series("loss", 0.0)) is None
