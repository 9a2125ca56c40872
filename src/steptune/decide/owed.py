"""Which guards a change owes, by what it may touch; rule 5 of the design page as two tables.

Even a change of effect *none* owes what its steps show anyway: equal work, memory, the same-weights gap (the
trainer's update parity does not see rollout-side moves), entropy and gradient norm (a NaN run may be fast). A
FAIL counts whether owed or not.
"""

from collections.abc import Iterable, Sequence

from steptune.core.knob import Effect
from steptune.core.verdict import Judgement, Verdict

REWARD, REWARD_RATE = "reward", "reward_rate"
"""The guards whose INCONCLUSIVE makes a decision provisional instead of refusing it; the second is owed by nothing, for
it needs a measured step time, but what it says counts."""

OWED_AT_TRIAL: dict[Effect, tuple[str, ...]] = {
    Effect.NONE: ("same_work", "memory", "mismatch", "entropy"),
    Effect.PRECISION: ("same_work", "memory", "mismatch", "entropy"),
    Effect.STALENESS: ("same_work", "memory", "mismatch", "entropy", "off_policy", "steady"),
}
"""What a trial's own steps can show. An effect that is not listed may not be tried at all."""

OWED_AT_DECISION: dict[Effect, tuple[str, ...]] = {
    Effect.NONE: (*OWED_AT_TRIAL[Effect.NONE], "update_parity"),
    Effect.PRECISION: (*OWED_AT_TRIAL[Effect.PRECISION], "truncation", REWARD),
    Effect.STALENESS: (*OWED_AT_TRIAL[Effect.STALENESS], "truncation", REWARD),
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
