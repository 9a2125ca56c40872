"""Runs that blow up, and long healthy ones that do not."""

import math

import pytest
from paste_cases import paste, series

from steptune.core.finding import Finding
from steptune.core.paste import Series
from steptune.diagnose.health import health
from steptune.diagnose.job import read_job

CLIMB = tuple(0.002 * 1.3**i for i in range(30))
"""0.002 to 4.0 nat."""


def blow_up(*given: Series) -> Finding | None:
    return next((f for f in health(read_job(paste(series=given))) if f.code == "health/divergence"), None)


def test_a_policy_that_runs_away_from_its_reference_is_told_with_both_ends() -> None:
    found = blow_up(series("kl_ref", *CLIMB, key="kl"))
    assert found is not None
    assert "`kl` rises from 0.0026 to 3.1" in found.title
    settled = blow_up(series("kl_ref", *CLIMB, *[2.4, 2.6, 2.2, 2.5] * 10))
    assert settled is not None


def test_gradients_that_blow_up_are_told_from_clean_and_from_wavering_starts() -> None:
    found = blow_up(series("grad_norm", *(0.3 * 1.2**i * (1.1 if i % 2 else 0.9) for i in range(30))))
    assert found is not None
    assert "gradients blow up" in found.title


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("kl_ref", [0.0001 * 1.3**i for i in range(20)]),  # grows a hundredfold and is still small
        ("kl_ref", [1.1, 0.8, 1.1, 1.1, 1.2, 1.0, 0.9, 1.1, 1.2, 1.1]),  # far from the first step on
        ("kl_ref", [0.01] * 20 + [9.0]),  # one wild step
        ("grad_norm", [0.2] * 10 + [1927.0] + [0.2] * 10),
        ("grad_norm", [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]),
        ("grad_norm", [30.0 - i for i in range(20)]),
        ("kl_ref", [0.001, 1.0, 5.0]),  # too few
        ("kl_ref", [math.nan] * 10),
    ],
)
def test_small_levels_spikes_levels_and_falls_are_no_blow_up(name: str, values: list[float]) -> None:
    assert blow_up(series(name, *values)) is None


@pytest.mark.parametrize(
    ("name", "values", "fires"),
    [
        ("kl_ref", (2.0e6,), True),
        ("kl_ref", (0.01, 0.02, 3.0e6, 0.02, 0.03), False),  # one wild step
        ("kl_ref", (40.0, 50.0), False),  # summed over an answer, as older PPO trainers print it
        ("grad_norm", (3.0e9, 2.0e9), True),
        ("grad_norm", (900.0, 1200.0), False),
    ],
)
def test_a_level_beyond_any_run_needs_no_trend(name: str, values: tuple[float, ...], fires: bool) -> None:
    assert (blow_up(series(name, *values)) is not None) is fires
