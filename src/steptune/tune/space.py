"""What may be tried, priced once: the list of changes with their planned work and what the profile says of each.

A list that had to be cut (`propose.candidates`) lacks combinations. It is therefore grown where it matters: around its
best forecast until no neighbour is better, and around every incumbent. Everything is a function of the journal, so a
resumed session has the same list up to changes that are no longer anybody's neighbour.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

from steptune.core.change import Change
from steptune.core.event import LearntFrom, Proposed
from steptune.core.job import Objective
from steptune.core.work import PlannedWork, objective_weight
from steptune.forecast.curve import ForecastError
from steptune.forecast.rank import Priced, Ranked, price, rank
from steptune.propose.candidates import Proposal, candidates
from steptune.propose.make import make_change
from steptune.propose.neighbours import neighbours
from steptune.propose.price import Relaxation, price_of_limits, relaxations
from steptune.propose.ranked import RankedChange
from steptune.propose.space import axes
from steptune.propose.too_old import without_too_old
from steptune.tune.context import Context
from steptune.tune.objectives import Candidate, best_by_objective, no_slower_chance
from steptune.tune.search_state import SearchState

MAX_CLIMBS = 30
"""Steps uphill from the best listed forecast; each changes up to two knobs, so a dozen knobs need six."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """Every change that may be tried, with its planned work and its price."""

    proposal: Proposal
    planned: tuple[PlannedWork, ...]
    """Same order as the proposal's changes."""
    planned_baseline: PlannedWork
    priced: tuple[Priced, ...]
    """What the profile has a price for; indices into the changes."""
    known: frozenset[str] = frozenset()
    """Signatures of the changes of a list that was cut; a whole one is never added to."""


def build_space(context: Context) -> Space:
    """List, count and price every allowed change. Deterministic, so a resumed session builds the same."""
    space = _space(context, propose(context))
    if not space.priced:
        context.progress.say("propose: the profile has no price for these changes; levers will be tried one by one")
    for _ in range(0 if space.proposal.is_complete else MAX_CLIMBS):
        best = min(space.priced, key=lambda p: p.raw_ratio * p.weight, default=None)
        if best is None:
            break
        grown = _with_neighbours(context, space, space.proposal.changes[best.index])
        if grown is space or not any(
            p.raw_ratio * p.weight < best.raw_ratio * best.weight for p in grown.priced[len(space.priced) :]
        ):
            return grown
        space = grown
    return space


def propose(context: Context, relaxation: Relaxation | None = None) -> Proposal:
    """List the allowed changes, under the owner's limits or with one of them loosened."""
    job = context.job
    if relaxation is not None:
        job = job.model_copy(update={"limits": relaxation.limits})
    return candidates(
        job,
        context.specs,
        context.baseline_settings,
        context.state.bottlenecks or (),
        lambda settings: context.framework.conflicts(job, settings),
    )


def record_proposal(context: Context, space: Space) -> None:
    """Record how much was considered, what was refused and what each limit costs."""
    proposal = space.proposal
    rows = ranked_space(context, space, ())
    ranked = [as_change(space, each, context.job.objective) for each in rows]
    prices = price_of_limits(ranked, [(r, _blocked(context, space, r)) for r in relaxations(context.job.limits)])
    context.record(
        Proposed(
            num_candidates=len(proposal.changes),
            num_refused=proposal.num_refused,
            refusals=tuple(f"{refusal.reason} ({refusal.count})" for refusal in proposal.refusals),
            prices=prices,
            best=best_by_objective([_candidate(space, row) for row in rows]),
        )
    )
    context.progress.say(f"propose: {len(proposal.changes)} changes may be tried, {proposal.num_refused} refused")
    for each in prices:
        context.progress.say(f"propose: {each.limit} {each.now} to {each.relaxed} would be worth {each.gain}")


def _candidate(space: Space, row: Ranked) -> Candidate:
    devices = objective_weight(Objective.DEVICE_SECONDS_PER_STEP, space.planned[row.index], space.planned_baseline)
    return space.proposal.changes[row.index], row.step, devices


def ranked_space(context: Context, space: Space, history: tuple[LearntFrom, ...]) -> list[Ranked]:
    """Return every change that may fit with its forecast, fastest first."""
    rows = rank(space.priced, history=history, noise_floor=context.baseline.noise)
    return [row for row in rows if row.memory_fits is not False]


def grown(context: Context, space: Space, found: SearchState) -> Space:
    """Return the space with the incumbent's neighbours, where the list had to be cut."""
    if space.proposal.is_complete or found.incumbent is None:
        return space
    return _with_neighbours(context, space, found.incumbent.trial.change)


def _with_neighbours(context: Context, space: Space, change: Change) -> Space:
    """Return the space with every change that is up to two knobs away and can run; the same object if none is new."""
    job, baseline = context.job, context.baseline_settings
    bottlenecks = context.state.bottlenecks or ()
    by_name = {spec.name: spec for spec in context.specs}
    new: dict[str, Change] = {}
    for moves in neighbours(change, axes(job.knobs, context.specs, baseline, bottlenecks)):
        made = make_change(moves, by_name, bottlenecks)
        if made.signature in space.known or context.framework.conflicts(job, made.applied_to(baseline)):
            continue
        new[made.signature] = made
    if not new:
        return space
    added = _space(context, space.proposal.model_copy(update={"changes": tuple(new.values())}))
    first = len(space.planned)
    return Space(
        proposal=space.proposal.model_copy(update={"changes": (*space.proposal.changes, *added.proposal.changes)}),
        planned=(*space.planned, *added.planned),
        planned_baseline=space.planned_baseline,
        priced=(*space.priced, *(replace(p, index=first + p.index) for p in added.priced)),
        known=space.known | new.keys(),
    )


def _space(context: Context, proposal: Proposal, relaxation: Relaxation | None = None) -> Space:
    baseline = context.baseline_settings
    limits = context.job.limits if relaxation is None else relaxation.limits
    plans = [context.planned(change.applied_to(baseline)) for change in proposal.changes]
    proposal, planned = without_too_old(proposal, plans, limits.max_staleness)
    planned_baseline = context.planned(baseline)
    return Space(
        proposal=proposal,
        planned=planned,
        planned_baseline=planned_baseline,
        priced=_priced(context, planned_baseline, planned, proposal.changes),
        known=frozenset() if proposal.is_complete else frozenset(change.signature for change in proposal.changes),
    )


def _priced(
    context: Context, planned_baseline: PlannedWork, planned: Sequence[PlannedWork], changes: Sequence[Change]
) -> tuple[Priced, ...]:
    """Return the prices; none at all where even the baseline has no price."""
    try:
        return tuple(
            price(
                profile=context.baseline,
                planned_baseline=planned_baseline,
                planned=planned,
                changes=changes,
                total_memory_bytes=context.framework.total_memory_bytes(),
                headroom_frac=context.job.limits.memory_headroom_frac,
                objective=context.job.objective,
            )
        )
    except ForecastError as error:
        context.progress.say(f"propose: no forecast: {error}")
        return ()


def _blocked(context: Context, space: Space, relaxation: Relaxation) -> list[RankedChange]:
    """Return forecasts of the changes that only this limit blocks."""
    known = {change.signature for change in space.proposal.changes}
    relaxed = propose(context, relaxation)
    new = tuple(change for change in relaxed.changes if change.signature not in known)
    blocked = _space(context, relaxed.model_copy(update={"changes": new}), relaxation)
    return [as_change(blocked, each, context.job.objective) for each in ranked_space(context, blocked, ())]


def as_change(
    space: Space,
    each: Ranked,
    objective: Objective,
    cost_steps: Callable[[Change, float, float], float] = lambda *_: 1.0,
) -> RankedChange:
    """Return a forecast as the chooser takes it; ``cost_steps`` prices a trial by forecast ratio and its slow end."""
    change, ratio = space.proposal.changes[each.index], each.ratio
    return RankedChange(
        change=change,
        low=ratio.low,
        mid=ratio.mid,
        high=ratio.high,
        cost_steps=cost_steps(change, ratio.mid, ratio.high),
        fit_chance=each.fit_chance * no_slower_chance(objective, each.step),
    )
