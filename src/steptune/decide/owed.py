"""Which guards a change owes, by what it may touch; rule 5 of the design page as two tables.

Even a change of effect *none* owes what its steps show anyway: equal work, memory, the same-weights gap (the
trainer's update parity does not see rollout-side moves), entropy and gradient norm (a NaN run may be fast), and that
the weights arrived (any schedule or hand-over may lose them). The surprise: a heavier change owes update parity too,
for the moves labelled *none* that it carries. A FAIL counts whether owed or not; an owed guard without an answer is
*cannot tell*, and nothing is adopted on that.
"""

from collections.abc import Iterable, Sequence

from steptune.core.knob import Effect
from steptune.core.verdict import Judgement, Verdict

REWARD, REWARD_RATE, TRUNCATION = "reward", "reward_rate", "truncation"
LENGTH, GAP_GROWTH = "length", "mismatch_growth"
"""Guards that paired training runs answer; length without them by runs at natural lengths."""

MAKES_PROVISIONAL = (REWARD, REWARD_RATE, LENGTH, GAP_GROWTH)
"""Guards whose INCONCLUSIVE is a lack of power, which trip-wires watch after the change has left the tool."""

_SHOWN_BY_STEPS = ("same_work", "memory", "mismatch", "entropy", "weights_arrived")

OWED_AT_TRIAL: dict[Effect, tuple[str, ...]] = {
    Effect.NONE: _SHOWN_BY_STEPS,
    Effect.PRECISION: _SHOWN_BY_STEPS,
    Effect.STALENESS: (*_SHOWN_BY_STEPS, "off_policy", "steady"),
}
"""What a trial's own steps can show. An effect that is not listed may not be tried at all."""

OWED_OF_A_LEAD = ("update_parity",)
"""What a trial owes once it leads. A replay is made for it alone, so no more steps could settle it: blind is *cannot
tell*, and the trial is not followed."""

OWED_OF_TRAINING: dict[Effect, tuple[str, ...]] = {
    Effect.NONE: (),
    Effect.PRECISION: (TRUNCATION, LENGTH, GAP_GROWTH, REWARD),
    Effect.STALENESS: (TRUNCATION, LENGTH, GAP_GROWTH, REWARD, REWARD_RATE),
}
"""What only paired training runs can show. Staleness slows learning: it owes the reward of equal device time too."""

OWED_OF_ANSWERS: dict[Effect, tuple[str, ...]] = {Effect.NONE: (LENGTH,), Effect.PRECISION: (), Effect.STALENESS: ()}
"""What only answers of natural length can show where no training runs are owed: timed arms are forced to one length."""

OWED_AT_DECISION: dict[Effect, tuple[str, ...]] = {
    effect: (*OWED_AT_TRIAL[effect], *OWED_OF_A_LEAD, *OWED_OF_TRAINING[effect], *OWED_OF_ANSWERS[effect])
    for effect in OWED_AT_TRIAL
}
"""What must be settled before a configuration leaves the tool."""


def failures(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return one sentence for every guard that failed, owed or not."""
    return tuple(
        f"{verdict.guard} failed: {verdict.because}" for verdict in verdicts if verdict.judgement is Judgement.FAIL
    )


def absent(owed: Iterable[str], verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the owed guards that gave no verdict."""
    given = {verdict.guard for verdict in verdicts}
    return tuple(guard for guard in owed if guard not in given)


def undecided(owed: Sequence[str], verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return the INCONCLUSIVE verdicts of owed guards."""
    return tuple(v for v in verdicts if v.guard in owed and v.judgement is Judgement.INCONCLUSIVE)
