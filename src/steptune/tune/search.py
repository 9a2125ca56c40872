"""The search: propose once, then forecast, try, guard and judge one change after another.

It ends when the budget's share for trials is spent, or when nothing left is worth what finding out would cost.
"""

from collections.abc import Callable
from dataclasses import replace

from steptune.core.change import Change
from steptune.core.event import Forecasted, LearntFrom
from steptune.core.forecast import Forecast
from steptune.core.work import PlannedWork
from steptune.forecast.forecast import forecast_change
from steptune.forecast.lag.forecast import with_lag
from steptune.propose.ablate import next_ablation
from steptune.propose.choose import next_change
from steptune.propose.minimal import minimal_change
from steptune.propose.ranked import RankedChange
from steptune.propose.space import relevance
from steptune.stats.noise import worth_frac
from steptune.tune.baseline import NOTHING
from steptune.tune.conclude import owes_reward
from steptune.tune.context import Context
from steptune.tune.far_gain import FEW_STEPS_PLAN, slow_end
from steptune.tune.halves import replay_halves
from steptune.tune.relabel import labelled, relabelled_text
from steptune.tune.reserve import Reserve
from steptune.tune.screen import Prices
from steptune.tune.search_state import SearchState, search_state
from steptune.tune.space import Space, as_change, grown, ranked_space
from steptune.tune.trial_cost import trial_cost
from steptune.tune.try_change import try_change

SLIM_FRAC = 0.01
"""Part of the forecast step that a change of fewer moves may cost. The noise band in its place (4 to 6 %) gave away 9 %
of the gain in the median of a space where the sides overlap (bench/search.py, 8 seeds, 2026-11-30)."""


def search(context: Context, space: Space, keep: Callable[[Space, SearchState], Reserve]) -> SearchState:
    """Run trials until nothing more is worth one; what ``keep`` says stays for what comes after.

    It is asked before every trial, for the session learns what things cost. Where too little is left for a reward
    test, changes that owe none are still tried. A trial that takes longer than was thought ends where the reserve
    begins.
    """
    context.runs.is_capped = True
    while True:
        found, left_s = search_state(context.state, context.effects), context.budget.wall_left_s()
        kept, incumbent = keep(space, found), None if found.incumbent is None else found.incumbent.trial.change
        needed_s = kept.of(incumbent) + kept.least_trial_s
        if context.budget.trials_left() == 0 or left_s < needed_s or context.runs.is_spent:
            context.progress.say(
                f"search: the budget for trials is spent: {context.budget.trials_left()} trials and {left_s:.0f} s are "
                f"left, {kept.of(incumbent):.0f} s are kept for what follows"
            )
            return found
        can_test = left_s >= kept.whole_s + kept.least_trial_s
        space = grown(context, space, found)
        index = choose(context, space, found, owing=can_test)
        if index is None:
            which = "" if can_test else f" without a reward test, for which {kept.reward_s:.0f} s are not left"
            context.progress.say(f"search: nothing left to try is worth what finding out would cost{which}")
            return found
        change = labelled(space.proposal.changes[index], found.relabelled)
        with context.budget.keeping(max(kept.of(incumbent), kept.of(change))):
            if not replay_halves(context, space, index, found):
                try_one(context, space, index, found)


def choose(context: Context, space: Space, found: SearchState, *, owing: bool = True) -> int | None:
    """Return the index of the next change to try: the best open forecast, or what is best worth finding out.

    A forecast gain is slimmed to the moves it needs; a hope is not, since its moves are what is to be found out.
    Without either, it is the next lever of the ablation over what the profile has no price for. ``owing`` False leaves
    out changes that owe a reward test.
    """
    noise = context.baseline.noise
    band = None if noise is None else worth_frac(noise)
    if band is None:
        return None
    wanted = found.incumbent_ratio * (1 - band)
    ranked, indices = hopeful_changes(context, space, found, wanted, owing=owing)
    best = next_change(ranked, found.tried, found.banned, found.incumbent_ratio, band)
    if best is None:
        return next_unpriced(context, space, found, owing=owing)
    return indices[minimal_change(best, ranked, SLIM_FRAC) if ranked[best].mid < wanted else best]


def hopeful_changes(
    context: Context, space: Space, found: SearchState, wanted: float, *, owing: bool
) -> tuple[list[RankedChange], list[int]]:
    """Return the priced changes that may be tried and may beat ``wanted``, with their indices in the space."""
    cost = trial_cost(context, found)
    rows = [row for row in ranked_space(context, space, found.history) if row.ratio.low < wanted]
    kept = [row for row in rows if _may_try(space, row.index, found, owing)]
    changes = [as_change(space, row, context.job.objective, cost) for row in kept]
    weighed = [replace(each, fit_chance=each.fit_chance * found.pass_chance(each.change)) for each in changes]
    return weighed, [row.index for row in kept]


def next_unpriced(context: Context, space: Space, found: SearchState, *, owing: bool) -> int | None:
    """Return the next lever of the ablation over changes without a forecast."""
    priced = {each.index for each in space.priced}
    bottlenecks = context.state.bottlenecks or ()
    return next_ablation(
        space.proposal.changes,
        lambda index: index not in priced and _may_try(space, index, found, owing),
        found.incumbent.trial.change if found.incumbent else NOTHING,
        lambda knob: relevance(knob, bottlenecks),
    )


def _may_try(space: Space, index: int, found: SearchState, owing: bool) -> bool:
    change = labelled(space.proposal.changes[index], found.relabelled)
    return (owing or not owes_reward(change.effect)) and found.is_open(change)


def try_one(context: Context, space: Space, index: int, found: SearchState) -> None:
    """Write the forecasts of one change down, then run its trial."""
    change, planned = labelled(space.proposal.changes[index], found.relabelled), space.planned[index]
    number = len(context.state.ended) + 1
    write_forecast(context, space, change, planned, number=number, purpose="trial", history=())
    latest = write_forecast(context, space, change, planned, number=number, purpose="trial", history=found.history)
    context.progress.say(
        f"trial {number} of at most {context.job.budget.max_trials}: {change}; forecast ratio {latest.ratio}"
    )
    context.budget.num_trials += 1
    cost, ratio = trial_cost(context, found), 1.0 if latest.refused else latest.ratio.value
    prices = Prices(
        full=cost(change, ratio, slow_end(latest)), few=cost.of_few_steps(change, ratio, FEW_STEPS_PLAN.kept_steps)
    )
    try_change(context, number=number, change=change, found=found, forecast=latest, prices=prices)
    new = search_state(context.state, context.effects).relabelled - found.relabelled
    for line in relabelled_text(context.state, new, change):
        context.progress.say(f"trial {number}: {line}")


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
    forecast = with_lag(
        forecast_change(
            profile=context.baseline,
            planned_baseline=space.planned_baseline,
            planned=planned,
            change=change,
            history=history,
            total_memory_bytes=context.framework.total_memory_bytes(),
            headroom_frac=context.job.limits.memory_headroom_frac,
            objective=context.job.objective,
        ),
        profile=context.baseline,
        planned_baseline=space.planned_baseline,
        planned=planned,
        history=history,
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
