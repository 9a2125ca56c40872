"""From the search to a winner that is confirmed: prune it, test its reward, confirm it; or take the next best.

::

    search -> waterfall, prune -> reward test -> confirm
      ^             |                 |             |
      |-- slimmer winner: search on --|             |
      |-- reward failed: ban the guilty moves ------|
      '-- a fault in the confirmation: on with the next best that led

Every arrow is crossed only when its event is in the journal, so a killed session finds its place again.
"""

from dataclasses import replace
from functools import partial

from steptune.core.errors import BudgetSpentError
from steptune.core.event import Reserved
from steptune.guard.reward import MIN_PAIRS
from steptune.tune.conclude import owes_reward
from steptune.tune.confirm import confirm, record_tuned_profile
from steptune.tune.context import Context
from steptune.tune.prune import measured_waterfall, prune
from steptune.tune.refuted import refuted
from steptune.tune.reserve import Reserve, reserve, reward_test_s, unit_costs
from steptune.tune.reward import run_reward_test, skip_reward_test
from steptune.tune.search import search
from steptune.tune.search_state import SearchState, search_state
from steptune.tune.space import Space

MAX_ROUNDS = 6
"""Times the search may be taken up again after pruning or a failed reward test."""


def confirmed_winner(context: Context, space: Space) -> SearchState:
    """Confirm the search's winner; after a fault in it the next best that led, while the budget pays for one more."""
    while True:
        found = search_state(context.state, context.effects)
        if refuted(context.state) and not _pays_for_another(context, space, found):
            return found
        found = _settle(context, space)
        if found.incumbent is None:
            return found
        _confirm(context, space, found)
        after = search_state(context.state, context.effects)
        if after.incumbent is found.incumbent:
            return after


def _pays_for_another(context: Context, space: Space, found: SearchState) -> bool:
    """Return whether another confirmation, and the reward test that its change owes, still fit into the budget."""
    change = found.incumbent.trial.change if found.incumbent else None
    kept = reserve(context, space, found)
    needed_s = kept.after_pruning(change)
    left_s = context.budget.wall_left_s()
    if left_s < needed_s:
        context.progress.say(
            f"confirm: no other winner is confirmed: about {needed_s:.0f} s are needed, {left_s:.0f} s are left"
        )
    return left_s >= needed_s


def _settle(context: Context, space: Space) -> SearchState:
    """Search, prune and test rewards until a winner stands, or none does."""
    found = search_state(context.state, context.effects)
    for _ in range(MAX_ROUNDS):
        found = search(context, space, partial(_kept, context))
        if found.incumbent is None:
            return found
        _record_reserve(context, space, found)
        pruned = _pruned(context, space, found)
        if pruned.incumbent is not found.incumbent:
            found = pruned
            continue
        if not owes_reward(found.incumbent.trial.change.effect):
            return found
        if not _has_reward_test(context, found):
            _test_reward(context, space, found)
        after = search_state(context.state, context.effects)
        if after.incumbent is found.incumbent:
            return after
        found = after
    return found


def _kept(context: Context, space: Space, found: SearchState) -> Reserve:
    """Return what is kept; nothing for a waterfall that was measured."""
    kept = reserve(context, space, found)
    if found.incumbent is None or measured_waterfall(context, found) is None:
        return kept
    return replace(kept, waterfall_s=0.0)


def _record_reserve(context: Context, space: Space, found: SearchState) -> None:
    """Record and say what each stage is promised; once for a winner."""
    assert found.incumbent is not None, "a reserve is a winner's"
    change, before = found.incumbent.trial.change, context.state.reserved
    if before is not None and before.signature == change.signature:
        return
    kept, unit = _kept(context, space, found), unit_costs(context, space)
    event = Reserved(
        signature=change.signature,
        waterfall_s=kept.waterfall_s,
        reward_s=kept.reward_s if owes_reward(change.effect) else 0.0,
        confirm_s=kept.confirm_s,
        start_up_s=unit.start_up_s,
        wall_left_s=context.budget.wall_left_s(),
    )
    context.record(event)
    context.progress.say(
        f"search: of {event.wall_left_s:.0f} s left, {event.waterfall_s:.0f} s are for the waterfall, "
        f"{event.reward_s:.0f} s for the reward test, {event.confirm_s:.0f} s for the confirmation; a launch takes "
        f"{event.start_up_s:.1f} s to its first step"
    )


def _pruned(context: Context, space: Space, found: SearchState) -> SearchState:
    """Prune the winner; one that follows a rejected one only where that leaves enough for its confirmation."""
    assert found.incumbent is not None, "only a winner is pruned"
    change, kept = found.incumbent.trial.change, _kept(context, space, found)
    if refuted(context.state) and context.budget.wall_left_s() < kept.of(change):
        context.progress.say("waterfall: not measured, for the budget must pay for another confirmation")
        return found
    later_s = kept.after_pruning(change)
    with context.budget.keeping(later_s):
        return prune(context, space, found, later_s + kept.least_trial_s)


def _test_reward(context: Context, space: Space, found: SearchState) -> None:
    """Test the reward within the test's share: what is left when the confirmation's is kept."""
    assert found.incumbent is not None, "only a winner is tested"
    change, kept_s = found.incumbent.trial.change, reserve(context, space, found).confirm_s
    with context.budget.keeping(kept_s):
        num_pairs = min(MIN_PAIRS, context.job.guard.reward_seeds)
        least_s, share_s = reward_test_s(context, space, found, num_pairs), context.budget.stage_left_s()
        if share_s < least_s:
            why = f"{num_pairs} pairs need about {least_s:.0f} s, its share of the budget is {max(0.0, share_s):.0f} s"
            skip_reward_test(context, change, f"{why} ({kept_s:.0f} s are kept for the confirmation)")
        else:
            run_reward_test(context, change, unit_costs(context, space))


def _has_reward_test(context: Context, found: SearchState) -> bool:
    assert found.incumbent is not None, "only a winner is tested"
    return any(t.signature == found.incumbent.trial.change.signature for t in context.state.reward_tests)


def _confirm(context: Context, space: Space, found: SearchState) -> None:
    assert found.incumbent is not None, "only a winner is confirmed"
    change = found.incumbent.trial.change
    if not any(each.signature == change.signature for each in context.state.confirmations):
        try:
            confirm(context, space, change)
        except BudgetSpentError as error:
            context.progress.say(f"confirm: cut off, so nothing is confirmed: {error}")
    record_tuned_profile(context, change)
