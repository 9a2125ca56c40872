"""Ways to search: all run the tuner's own trials, guards and judgements, and differ only in what they try next.

Ours is not written here: it is `tune.search.search`, as a session calls it.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from steptune.core.change import Change, Move
from steptune.core.event import TrialEnded
from steptune.core.knob import KnobValue
from steptune.propose.ablate import next_ablation
from steptune.propose.candidates import Proposal
from steptune.propose.make import make_change
from steptune.propose.space import axes, relevance
from steptune.tune.baseline import NOTHING
from steptune.tune.context import Context
from steptune.tune.reserve import Reserve
from steptune.tune.search import search, try_one
from steptune.tune.search_state import SearchState, search_state
from steptune.tune.space import Space, build_space, ranked_space

MAX_ASKS = 200
"""Proposals that cannot run or were made before, after which an arm is taken to have nothing left."""


class Arm(Protocol):
    """Says what to try next."""

    def next(self, context: Context, found: SearchState) -> Change | None:
        """Return the next change, or None when there is nothing left."""
        ...

    def tell(self, event: TrialEnded) -> None:
        """Learn a result."""
        ...


def run_ours(context: Context) -> None:
    """The tuner's own search."""
    search(context, build_space(context), lambda *_: Reserve(waterfall_s=0.0, reward_s=0.0, confirm_s=0.0))


def run_arm(context: Context, arm: Arm) -> None:
    """Try what ``arm`` says until it or the budget ends."""
    while context.budget.trials_left() and context.budget.wall_left_s() > 0:
        found = search_state(context.state, context.effects)
        change = arm.next(context, found)
        if change is None:
            return
        try_one(context, space_of(context, change), 0, found)
        arm.tell(context.state.ended[-1])


def space_of(context: Context, change: Change) -> Space:
    """Return a space of one change."""
    baseline = context.baseline_settings
    proposal = Proposal(changes=(change,), num_combinations=1, num_refused=0, refusals=(), is_complete=True)
    planned = context.planned(change.applied_to(baseline))
    return Space(proposal=proposal, planned=(planned,), planned_baseline=context.planned(baseline), priced=())


def options(context: Context) -> dict[str, list[KnobValue]]:
    """Return the values of every knob that may move, the baseline's first."""
    baseline, allowed = context.baseline_settings, context.job.knobs.allow
    return {
        s.name: [baseline[s.name], *(v for v in s.values if v is not baseline[s.name] and v != baseline[s.name])]
        for s in context.specs
        if not allowed or s.name in allowed
    }


def change_of(context: Context, values: Mapping[str, KnobValue]) -> Change | None:
    """Return the change that these settings make; None for the baseline and for what cannot run."""
    baseline = context.baseline_settings
    moves = [Move(knob=k, old=baseline[k], new=new) for k, new in values.items() if new != baseline[k]]
    change = make_change(moves, {s.name: s for s in context.specs}, ())
    if not moves or context.framework.conflicts(context.job, change.applied_to(baseline)):
        return None
    return change


class Random:
    """Any configuration that can run and was not tried."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"random {seed}")

    def next(self, context: Context, found: SearchState) -> Change | None:
        """Draw until one is new."""
        for _ in range(MAX_ASKS):
            change = change_of(context, {knob: self.rng.choice(each) for knob, each in options(context).items()})
            if change is not None and change.signature not in found.tried:
                return change
        return None

    def tell(self, event: TrialEnded) -> None:
        """Nothing is learnt."""


class TopForecasts:
    """The raw forecast's list, best first, down to no gain; nothing is learnt from a trial."""

    def __init__(self, seed: int) -> None:
        self.left: Iterator[Change] | None = None

    def next(self, context: Context, found: SearchState) -> Change | None:
        """Take the next of the list."""
        if self.left is None:
            self.left = iter(top_forecasts(context, build_space(context)))
        return next(self.left, None)

    def tell(self, event: TrialEnded) -> None:
        """Nothing is learnt."""


def top_forecasts(context: Context, space: Space) -> list[Change]:
    """Return changes forecast to gain, best first."""
    return [space.proposal.changes[r.index] for r in ranked_space(context, space, ()) if r.ratio.mid < 1]


class OneLever:
    """One lever after the other on top of the best so far, in the order of the bottlenecks they treat."""

    def __init__(self, seed: int) -> None:
        self.done: set[str] = set()

    def next(self, context: Context, found: SearchState) -> Change | None:
        """Take the next lever that was not tried on this incumbent."""
        incumbent = found.incumbent.trial.change if found.incumbent else NOTHING
        options = list(_on_top(context, incumbent))
        index = next_ablation(
            options,
            lambda i: options[i].signature not in found.tried,
            incumbent,
            lambda knob: relevance(knob, context.state.bottlenecks or ()),
        )
        return None if index is None else options[index]

    def tell(self, event: TrialEnded) -> None:
        """The incumbent says it all."""


def _on_top(context: Context, incumbent: Change) -> Iterator[Change]:
    """Yield the incumbent with one knob moved, and with two where one needs the other."""
    movable = axes(context.job.knobs, context.specs, context.baseline_settings, context.state.bottlenecks or ())
    settings = incumbent.applied_to(context.baseline_settings)
    moved = {move.knob for move in incumbent.moves}
    free = [axis for axis in movable if axis.spec.name not in moved]
    for i, axis in enumerate(free):
        for move in axis.moves:
            made = change_of(context, {**settings, move.knob: move.new})
            if made is not None:
                yield made
            for other in (m for a in free[i + 1 :] for m in a.moves):
                both = change_of(context, {**settings, move.knob: move.new, other.knob: other.new})
                if both is not None and made is None:
                    yield both


ARMS: dict[str, Callable[[int], Arm]] = {"random": Random, "top forecasts": TopForecasts, "one lever": OneLever}
"""Arms that need nothing installed."""
