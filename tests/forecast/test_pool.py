import itertools
import math
import random

import pytest

from steptune.core.profile import CostCurve, CurvePoint
from steptune.forecast.pool import pool

SIZES = (256, 512, 1024)


def probed(noise_sd: float, *, seed: int = 1) -> tuple[list[CostCurve], list[CostCurve]]:
    """Return curves as they are and as a noisy probe sees them: layouts, formats and threads each have their factor."""
    rng = random.Random(seed)
    true: list[CostCurve] = []
    seen: list[CostCurve] = []
    for layout, dtype, threads in itertools.product(("padded", "packed", "shared"), ("fp32", "bf16"), (1, 2)):
        when = {"layout": layout, "train_dtype": dtype, "train_threads": threads}
        base = 1e-4 * {"padded": 1, "packed": 1.1, "shared": 1.3}[layout] * (1.4 if dtype == "bf16" else 1)
        seconds = [base * size * (0.7 if threads == 2 and size > 300 else 1) for size in SIZES]
        noisy = [s * math.exp(rng.gauss(0, noise_sd)) for s in seconds]
        for kept, values in ((true, seconds), (seen, noisy)):
            points = tuple(CurvePoint(x=x, seconds=s) for x, s in zip(SIZES, values, strict=True))
            kept.append(CostCurve(name="train", when=when, unit="tokens", points=points))
    return true, seen


def error(curves: list[CostCurve], true: list[CostCurve]) -> float:
    pairs = [
        (a.seconds, b.seconds)
        for c, t in zip(curves, true, strict=True)
        for a, b in zip(c.points, t.points, strict=True)
    ]
    return math.sqrt(sum(math.log(a / b) ** 2 for a, b in pairs) / len(pairs))


@pytest.mark.parametrize("seed", range(5))
def test_what_curves_know_of_each_other_halves_the_noise_of_a_probe(seed: int) -> None:
    true, seen = probed(0.2, seed=seed)
    made = pool(seen)
    assert error(list(made.curves), true) < 0.8 * error(seen, true)
    assert 0.1 < made.noise_sd["train"] < 0.35


def test_a_quiet_probe_is_left_nearly_as_it_is() -> None:
    true, seen = probed(0.01)
    assert error(list(pool(seen).curves), seen) < 0.01
    assert pool(seen).noise_sd["train"] < 0.05
    assert error(list(pool(true).curves), true) < 0.01


def test_few_curves_stay_and_say_nothing_of_noise() -> None:
    _, seen = probed(0.2)
    made = pool(seen[:1])
    assert made.curves == tuple(seen[:1])
    assert made.noise_sd == {}


def test_a_primitive_with_a_price_of_nothing_or_no_number_is_left_alone() -> None:
    _, seen = probed(0.2)
    for broken in (0.0, math.nan):
        points = (CurvePoint.model_construct(x=1.0, seconds=broken),)
        odd = CostCurve.model_construct(name="train", when={}, unit="tokens", points=points)
        assert pool([*seen, odd]).curves[:-1] == tuple(seen)
