"""What a PROVISIONAL decision leaves open, said plainly on the first screen: that the change learns as well.

The surprise it guards against: a reader takes "provisional" for "nearly adopted". A change that really costs the whole
margin goes out as PROVISIONAL nearly every time, for the test cannot tell it from one that costs nothing.
"""

from collections.abc import Sequence

from steptune.core.verdict import Judgement, Verdict
from steptune.report.numbers import estimate_text
from steptune.report.session_view import SessionView

HANDED_OUT_AT_MARGIN = 0.976
"""Share of simulated sessions in which a change that costs exactly the reward margin ends as PROVISIONAL (n=1,000,
bench/verdicts.py, docs/design/verdicts.md)."""


def open_reward(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts on reward that did not settle it."""
    return tuple(v for v in verdicts if v.guard.startswith("reward") and v.judgement is Judgement.INCONCLUSIVE)


def not_shown(view: SessionView, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return what is not shown about reward, a sentence each; nothing where all of it is."""
    found = open_reward(verdicts)
    if not found:
        return ()
    seen = [f"its test could have seen a drop of {estimate_text(v.detectable)}" for v in found if v.detectable]
    margin = "" if view.started is None else f" of {view.started.job.limits.reward_margin:g}"
    return (
        "; ".join(["that the model learns as well with this change", *seen]),
        f"a change that costs your whole reward margin{margin} goes out like this in {HANDED_OUT_AT_MARGIN:.1%} of "
        "simulated sessions: read it as open, not as nearly adopted",
        "keep `steptune watch` on its trip-wires; the way back is the baseline",
    )
