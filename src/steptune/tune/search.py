"""The search: propose once, then forecast, try, guard and judge one change after another.

It ends when the budget's share for trials is spent, or when nothing left can beat the noise.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.change import Change
from steptune.core.event import Forecasted, LearntFrom, Proposed
from steptune.core.forecast import Forecast
from steptune.core.work import PlannedWork
from steptune.forecast.forecast import forecast_change
from steptune.forecast.rank import rank
from steptune.propose.candidates import Proposal, candidates
from steptune.propose.choose import next_change
from steptune.propose.minimal import minimal_change
from steptune.propose.price import Relaxation, price_of_limits, relaxations
from steptune.propose.ranked import RankedChange
from steptune.stats.noise import noise_band_frac
from steptune.tune.conclude import owes_reward
from steptune.tune.context import Context
from steptune.tune.reserve import Reserve
from steptune.tune.search_state import SearchState, search_state
from steptune.tune.try_change import try_change


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """Every change that may be tried, with its planned work."""

    proposal: Proposal
    planned: tuple[PlannedWork, ...]
    """Same order as the proposal's changes."""
    planned_baseline: PlannedWork


def build_space(context: Context) -> Space:
    """List and count every allowed change. Deterministic, so a resumed session builds the same."""
    proposal = propose(context)
    baseline = context.baseline_settings
    return Space(
        proposal=proposal,
        planned=tuple(context.planned(change.applied_to(baseline)) for change in proposal.changes),
        planned_baseline=context.planned(baseline),
    )


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
    ranked = ranked_changes(context, space, ())
    prices = price_of_limits(ranked, [(r, _blocked(context, space, r)) for r in relaxations(context.job.limits)])
    context.record(
        Proposed(
            num_candidates=len(proposal.changes),
            num_refused=proposal.num_refused,
            refusals=tuple(f"{refusal.reason} ({refusal.count})" for refusal in proposal.refusals),
            prices=prices,
        )
    )
    context.progress.say(f"propose: {len(proposal.changes)} changes may be tried, {proposal.num_refused} refused")
    for price in prices:
        context.progress.say(f"propose: {price.limit} {price.now} to {price.relaxed} would be worth {price.gain}")


def search(context: Context, space: Space, reserve: Reserve) -> SearchState:
    """Run trials until nothing more is worth one; what ``reserve`` says stays for what comes after.

    Where too little is left for a reward test, changes that owe none are still tried.
    """
    while True:
        found, left_s = search_state(context.state, context.effects), context.budget.wall_left_s()
        incumbent = None if found.incumbent is None else found.incumbent.trial.change
        if context.budget.trials_left() == 0 or left_s < reserve.of(incumbent):
            context.progress.say(
                f"search: the budget for trials is spent: {context.budget.trials_left()} trials and {left_s:.0f} s are "
                f"left, {reserve.of(incumbent):.0f} s are kept for what follows"
            )
            return found
        can_test = left_s >= reserve.whole_s
        index = choose(context, space, found, owing=can_test)
        if index is None:
            which = "" if can_test else f" without a reward test, for which {reserve.reward_s:.0f} s are not left"
            context.progress.say(f"search: nothing left is forecast to beat the noise{which}")
            return found
        try_one(context, space, index, found)


def choose(context: Context, space: Space, found: SearchState, *, owing: bool = True) -> int | None:
    """Return the index of the next change to try: the best open one, slimmed to the moves it needs.

    ``owing`` False leaves out changes that owe a reward test.
    """
    noise = context.baseline.noise
    band = None if noise is None else noise_band_frac(noise)
    if band is None:
        return None
    ranked, indices = open_changes(context, space, found)
    if not owing:
        kept = [(one, index) for one, index in zip(ranked, indices, strict=True) if not owes_reward(one.change.effect)]
        ranked, indices = [one for one, _ in kept], [index for _, index in kept]
    best = next_change(ranked, found.tried, found.banned, found.incumbent_ratio, band)
    return None if best is None else indices[minimal_change(best, ranked, band)]


def open_changes(context: Context, space: Space, found: SearchState) -> tuple[list[RankedChange], list[int]]:
    """Return the changes that may still be tried, with their indices in the space."""
    rows = _rank(context, space, found.history)
    changes = space.proposal.changes
    kept = [(index, ranked) for index, ranked in rows if found.is_open(changes[index])]
    return [ranked for _, ranked in kept], [index for index, _ in kept]


def ranked_changes(context: Context, space: Space, history: tuple[LearntFrom, ...]) -> list[RankedChange]:
    """Return every change that fits, with its forecast."""
    return [ranked for _, ranked in _rank(context, space, history)]


def try_one(context: Context, space: Space, index: int, found: SearchState) -> None:
    """Write the forecasts of one change down, then run its trial."""
    change, planned = space.proposal.changes[index], space.planned[index]
    number = len(context.state.ended) + 1
    write_forecast(context, space, change, planned, number=number, purpose="trial", history=())
    latest = write_forecast(context, space, change, planned, number=number, purpose="trial", history=found.history)
    context.progress.say(
        f"trial {number} of at most {context.job.budget.max_trials}: {change}; forecast ratio {latest.ratio}"
    )
    context.budget.num_trials += 1
    try_change(context, number=number, change=change, found=found, forecast=latest)


def write_forecast(
    context: Context,
    space: Space,
    change: Change,
    planned: PlannedWork,
    *,
    number: int,
    purpose: str,
    history: tuple[LearntFrom, ...],
) -> Forecast:
    """Forecast and record. Without history it is a first forecast: from the baseline's profile alone."""
    forecast = forecast_change(
        profile=context.baseline,
        planned_baseline=space.planned_baseline,
        planned=planned,
        change=change,
        history=history,
        total_memory_bytes=context.framework.total_memory_bytes(),
        headroom_frac=context.job.limits.memory_headroom_frac,
        objective=context.job.objective,
    )
    event = Forecasted.model_validate(
        {
            "purpose": purpose,
            "trial_number": number,
            "is_first": not history,
            "forecast": forecast,
            "planned": planned,
            "planned_baseline": space.planned_baseline,
            "history": history,
        }
    )
    if event not in context.journal.events:  # a resumed session writes no forecast twice
        context.record(event)
    return forecast


def _rank(context: Context, space: Space, history: tuple[LearntFrom, ...]) -> list[tuple[int, RankedChange]]:
    changes = space.proposal.changes
    rows = rank(
        profile=context.baseline,
        planned_baseline=space.planned_baseline,
        candidates=list(zip(changes, space.planned, strict=True)),
        history=history,
        total_memory_bytes=context.framework.total_memory_bytes(),
        headroom_frac=context.job.limits.memory_headroom_frac,
        objective=context.job.objective,
    )
    return [
        (r.index, RankedChange(change=changes[r.index], low=r.ratio.low, mid=r.ratio.mid, high=r.ratio.high))
        for r in rows
        if r.memory_fits is not False
    ]


def _blocked(context: Context, space: Space, relaxation: Relaxation) -> list[RankedChange]:
    """Return forecasts of the changes that only this limit blocks."""
    known = {change.signature for change in space.proposal.changes}
    relaxed = propose(context, relaxation)
    new = [change for change in relaxed.changes if change.signature not in known]
    baseline = context.baseline_settings
    blocked = Space(
        proposal=relaxed.model_copy(update={"changes": tuple(new)}),
        planned=tuple(context.planned(change.applied_to(baseline)) for change in new),
        planned_baseline=space.planned_baseline,
    )
    return ranked_changes(context, blocked, ())
