"""Moves labelled *none* whose own replay of updates fails: they are relabelled to the next heavier class. Pure.

A knob that claims to keep the mathematics and makes another update is not what its label says; it may still be worth
having. Under its new label it owes what *precision* owes: the owner's bound on the gap, and training runs that show the
reward. The surprise: a relabelled move is tried on only if the owner has said so (`limits.allow_other_updates`), for no
reward test of a few dozen steps shows that halved gradients do no harm. Else it is banned, and the decision says why.

A trial replays all its *none* moves at once, so the guilty one is found by group testing, as every other cause is
(`tune.blame`). A change with a relabelled move replays the others alone.
"""

from collections.abc import Collection, Mapping

from steptune.core.change import Change, Move
from steptune.core.event import TrialEnded
from steptune.core.knob import Effect, KnobValue, heaviest
from steptune.core.verdict import Judgement
from steptune.guard.update_parity import NAME as PARITY
from steptune.store.replay import SessionState
from steptune.tune.suspicion import Moves

Relabels = Mapping[tuple[str, KnobValue], int]
"""Relabelled moves, each with the number of the trial that found it out."""

NEW_LABEL = Effect.PRECISION
"""The class after *none*: a proof by gap and reward in the place of one by rounding."""


def relabelled(state: SessionState, effects: Mapping[str, Effect]) -> Relabels:
    """Return the moves found to make another update; ``effects`` are the knobs' own labels."""
    found: dict[tuple[str, KnobValue], int] = {}
    cleared: set[tuple[str, KnobValue]] = set()
    accused: list[Moves] = []
    for event in state.ended:
        said = next((verdict.judgement for verdict in event.verdicts if verdict.guard == PARITY), None)
        if said is None:
            continue
        replayed = replayed_moves(event.trial.change, effects, frozenset(found))
        if said is Judgement.PASS:
            cleared |= replayed
        elif said is Judgement.FAIL:
            accused.append(replayed)
        for group in accused:
            if len(left := group - cleared) == 1:
                found.setdefault(next(iter(left)), event.trial.number)
    return found


def tried_on(state: SessionState, effects: Mapping[str, Effect]) -> Relabels:
    """Return the relabelled moves that the owner lets be tried under their new label."""
    is_allowed = state.started is not None and state.started.job.limits.allow_other_updates
    return relabelled(state, effects) if is_allowed else {}


def before(relabels: Relabels, number: int) -> Moves:
    """Return the moves that had their new label when trial ``number`` was run."""
    return frozenset(move for move, found_by in relabels.items() if found_by < number)


def has_old_label(change: Change, number: int, relabels: Relabels) -> bool:
    """Return whether trial ``number`` of ``change`` was run under a label that is known to be wrong now."""
    return any(relabels.get((move.knob, move.new), -1) >= number for move in change.moves)


def replayed_moves(change: Change, effects: Mapping[str, Effect], new: Moves) -> Moves:
    """Return the moves of ``change`` that claim to keep the mathematics, ``new`` being relabelled."""
    labels = labels_of(change, effects, new)
    return frozenset((move.knob, move.new) for move in change.moves if labels.get(move.knob) is Effect.NONE)


def labels_of(change: Change, effects: Mapping[str, Effect], new: Moves) -> Mapping[str, Effect]:
    """Return the knobs' labels as they are for the moves of ``change``: those of ``new`` have the new one."""
    moved = {move.knob: NEW_LABEL for move in change.moves if (move.knob, move.new) in new}
    return {**effects, **moved} if moved else effects


def labels_then(event: TrialEnded, effects: Mapping[str, Effect], relabels: Relabels) -> Mapping[str, Effect]:
    """Return the labels that a trial was run under."""
    return labels_of(event.trial.change, effects, before(relabels, event.trial.number))


def labelled(change: Change, new: Collection[tuple[str, KnobValue]]) -> Change:
    """Return ``change`` with the effect class that its relabelled moves give it."""
    if not any((move.knob, move.new) in new for move in change.moves):
        return change
    return change.model_copy(update={"effect": heaviest((change.effect, NEW_LABEL))})


def relabelled_text(state: SessionState, new: Collection[tuple[str, KnobValue]], winner: Change) -> tuple[str, ...]:
    """Say of every relabelled move what became of it."""
    moves = {(move.knob, move.new): move for event in state.ended for move in event.trial.change.moves}
    return tuple(_text(moves[each], state, winner) for each in sorted(new, key=repr))


def _text(move: Move, state: SessionState, winner: Change) -> str:
    said = f"{move} is labelled none, but its updates are not the baseline's up to rounding: relabelled {NEW_LABEL}"
    if state.started is None or not state.started.job.limits.allow_other_updates:
        return f"{said} and left out, for `limits.allow_other_updates` is false"
    return f"{said}, with its proofs" if move in winner.moves else f"{said}; it is not in the configuration decided on"
