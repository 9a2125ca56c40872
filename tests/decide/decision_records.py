"""Builds the records a decision is made of; a test changes only what it is about."""

from collections.abc import Iterable
from typing import Any

from steptune.core.change import Change, Move
from steptune.core.decision import Decision
from steptune.core.estimate import Estimate, Source
from steptune.core.knob import Effect, KnobValue, Restart
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Trial, TrialState
from steptune.core.verdict import Judgement, Verdict
from steptune.decide.final import Costs, decide

BASELINE: dict[str, KnobValue] = {"layout": "padded", "recompute": True}


def times(value: float, low: float | None = None, high: float | None = None, n: int | None = 4) -> Estimate:
    return Estimate(value=value, low=low, high=high, unit="x", source=Source.DERIVED, n=n)


def noise(band_frac: float = 0.02) -> NoiseFloor:
    """A floor whose band is exactly ``band_frac``."""
    return NoiseFloor(within_launch_cv=0.01, between_launch_frac=band_frac, aa_ratio=times(1.0, 1.0, 1.0), num_steps=16)


def packing(effect: Effect = Effect.NONE) -> Change:
    move = Move(knob="layout", old="padded", new="packed")
    return Change(moves=(move,), effect=effect, restart=Restart.HOT)


def verdict(guard: str, judgement: Judgement = Judgement.PASS) -> Verdict:
    return Verdict(guard=guard, judgement=judgement, limit="its bound", because=f"{guard} says {judgement}")


def verdicts(owed: Iterable[str], **changed: Judgement | None) -> list[Verdict]:
    """A PASS of every owed guard, except those named: another judgement, or None for no verdict at all."""
    judged = {**dict.fromkeys(owed, Judgement.PASS), **changed}
    return [verdict(guard, judgement) for guard, judgement in judged.items() if judgement is not None]


def trial(ratio: Estimate | None, *, effect: Effect = Effect.NONE, **changed: Any) -> Trial:
    fields: dict[str, Any] = {
        "number": 1,
        "change": packing(effect),
        "state": TrialState.FINISHED,
        "ratio": ratio,
    }
    return Trial(**{**fields, **changed})


def decided(
    speedup: Estimate | None,
    given: Iterable[Verdict],
    *,
    change: Change | None = None,
    effect: Effect = Effect.NONE,
    **changed: Any,
) -> Decision:
    fields: dict[str, Any] = {
        "num_tried": 1,
        "step_speedup": None,
        "over_best_practice": times(1.3, 1.25, 1.35),
        "noise": noise(),
        "costs": Costs(wall_s=540.0, device_s=1080.0, paid_s=540.0, baseline_step_s=1.0, tuned_step_s=0.4),
        "holds_for": None,
        "tripwires": (),
    }
    return decide(
        change=packing() if change is None else change,
        baseline=BASELINE,
        effect=effect,
        confirmed_speedup=speedup,
        verdicts=list(given),
        **{**fields, **changed},
    )
