"""From the search to a winner that is confirmed: prune it, test its reward, confirm it; or take the next best.

::

    search -> waterfall, prune -> reward test -> confirm
      ^             |                 |             |
      |-- slimmer winner: search on --|             |
      |-- reward failed: ban the guilty moves ------|
      '-- a fault in the confirmation: on with the next best that led

Every arrow is crossed only when its event is in the journal, so a killed session finds its place again.
"""

from steptune.core.errors import BudgetSpentError
from steptune.tune.conclude import owes_reward
from steptune.tune.confirm import confirm, record_tuned_profile
from steptune.tune.context import Context
from steptune.tune.prune import prune
from steptune.tune.refuted import refuted
from steptune.tune.reserve import STEPS_AFTER_PRUNING, STEPS_AFTER_SEARCH, reserve
from steptune.tune.reward import reward_cost_s, run_reward_test, skip_reward_test
from steptune.tune.search import search
from steptune.tune.search_state import SearchState, search_state
from steptune.tune.space import Space

MAX_ROUNDS = 6
"""Times the search may be taken up again after pruning or a failed reward test."""


def confirmed_winner(context: Context, space: Space) -> SearchState:
    """Confirm the search's winner; after a fault in it the next best that led, while the budget pays for one more."""
    while True:
        found = search_state(context.state, context.effects)
        if refuted(context.state) and not _pays_for_another(context, found):
            return found
        found = _settle(context, space)
        if found.incumbent is None:
            return found
        _confirm(context, space, found)
        after = search_state(context.state, context.effects)
        if after.incumbent is found.incumbent:
            return after


def _pays_for_another(context: Context, found: SearchState) -> bool:
    """Return whether another confirmation, and the reward test that its change owes, still fit into the budget."""
    change = found.incumbent.trial.change if found.incumbent else None
    needed_s = reserve(context, found.incumbent_ratio, STEPS_AFTER_PRUNING).of(change)
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
        ratio = 0.5 if found.incumbent is None else found.incumbent_ratio
        found = search(context, space, reserve(context, ratio, STEPS_AFTER_SEARCH))
        if found.incumbent is None:
            return found
        pruned = _pruned(context, space, found)
        if pruned.incumbent is not found.incumbent:
            found = pruned
            continue
        if not owes_reward(found.incumbent.trial.change.effect):
            return found
        if not _has_reward_test(context, found):
            _test_reward(context, found)
        after = search_state(context.state, context.effects)
        if after.incumbent is found.incumbent:
            return after
        found = after
    return found


def _pruned(context: Context, space: Space, found: SearchState) -> SearchState:
    """Prune the winner; one that follows a rejected one only where that leaves enough for its confirmation."""
    assert found.incumbent is not None, "only a winner is pruned"
    change, ratio = found.incumbent.trial.change, found.incumbent_ratio
    whole_s = reserve(context, ratio, STEPS_AFTER_SEARCH).of(change)
    if refuted(context.state) and context.budget.wall_left_s() < whole_s:
        context.progress.say("waterfall: not measured, for the budget must pay for another confirmation")
        return found
    return prune(context, space, found, reserve(context, ratio, STEPS_AFTER_PRUNING).of(change))


def _test_reward(context: Context, found: SearchState) -> None:
    assert found.incumbent is not None, "only a winner is tested"
    change = found.incumbent.trial.change
    needed_s = reward_cost_s(context, found.incumbent_ratio)
    if needed_s > context.budget.wall_left_s():
        left_s = context.budget.wall_left_s()
        skip_reward_test(context, change, f"it needs about {needed_s:.0f} s, the budget has {left_s:.0f} s left")
    else:
        run_reward_test(context, change)


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
