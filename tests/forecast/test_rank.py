import pytest
from forecast_cases import (
    BASELINE,
    TOTAL_BYTES,
    change,
    decode,
    handover,
    learnt,
    plan,
    prefill,
    profile,
    train,
)

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.core.job import Objective
from steptune.core.profile import CostCurve
from steptune.core.work import PlannedWork
from steptune.forecast import curve as curve_module
from steptune.forecast.curve import ForecastError, price_at
from steptune.forecast.forecast import forecast_change
from steptune.forecast.rank import Priced, Ranked, price, rank

HISTORY = (learnt(0.8, 0.82, a=1), learnt(0.7, 0.72, a=1, b=2))


def ranked(candidates: list[tuple[Change, PlannedWork]], history: tuple[LearntFrom, ...] = ()) -> list[Ranked]:
    changes = [change for change, _ in candidates]
    return rank(priced([work for _, work in candidates], changes), history=history, noise_floor=profile().noise)


def priced(planned: list[PlannedWork], changes: list[Change], **given: object) -> list[Priced]:
    return price(
        profile=profile(**given),  # type: ignore[arg-type]
        planned_baseline=BASELINE,
        planned=planned,
        changes=changes,
        total_memory_bytes=TOTAL_BYTES,
        headroom_frac=0.2,
        objective=Objective.STEP_TIME,
    )


def test_fastest_first_and_the_unpriced_left_out() -> None:
    candidates = [
        (change(a=1), plan(prefill(), decode(x=90), train())),
        (change(b=1), plan(prefill(), decode(), train(recompute=True))),
        (change(c=1), plan(prefill(), decode(x=30), train())),
    ]
    assert [r.index for r in ranked(candidates)] == [2, 0]


def test_memory_is_judged_too() -> None:
    candidates = [(change(a=1), plan(train(), memory_bytes=20e9))]
    assert [(r.memory_fits, r.fit_chance) for r in ranked(candidates)] == [(False, 0.0)]


def test_a_rank_is_the_forecast_bit_for_bit() -> None:
    planned = plan(prefill(), decode(x=37), train(count=3), handover(), schedule="one_step_off")
    moved = change(a=1, c=3)
    full = forecast_change(
        profile=profile(),
        planned_baseline=BASELINE,
        planned=planned,
        change=moved,
        history=HISTORY,
        total_memory_bytes=TOTAL_BYTES,
        headroom_frac=0.2,
        objective=Objective.STEP_TIME,
    )
    (short,) = ranked([(moved, planned)], HISTORY)
    assert (short.ratio.low, short.ratio.mid, short.ratio.high) == (full.ratio.low, full.ratio.value, full.ratio.high)


def test_a_baseline_without_prices_is_an_error() -> None:
    with pytest.raises(ForecastError):
        priced([], [], costs=())


def test_a_primitive_is_priced_once_however_many_candidates_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [decode(x=x, count=1) for x in range(1, 41)]
    candidates = [(change(a=1, b=i), plan(prefill(), *items, train(count=i))) for i in range(200)]
    priced_items: list[tuple[str, float]] = []

    def counted(curve: CostCurve, x: float) -> curve_module.Price:
        priced_items.append((curve.name, x))
        return price_at(curve, x)

    monkeypatch.setattr(curve_module, "price_at", counted)
    assert len(ranked(candidates, HISTORY)) == 200
    assert len(priced_items) == len(set(priced_items)) == 41 + 2  # the baseline decodes another number of rows
