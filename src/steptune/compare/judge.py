"""The verdict: faster, slower or no proof, and the one sentence that says why.

FASTER and SLOWER need everything at once: work that is known to be the same, steady steps, an interval clear of 1 and
no fall in reward. Anything else is NO_PROOF; the ratio is shown all the same, under its name.
"""

from dataclasses import dataclass
from typing import final

from steptune.compare.measure import Measure
from steptune.compare.work import Work, work_text
from steptune.core.comparison import SpeedVerdict
from steptune.core.estimate import Estimate

UNKNOWN_WORK = "Whether the work is the same is not known (prompts per step, group size)"
"""Why step times alone are no proof."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What the verdict is made of."""

    work: Work
    measure: Measure | None
    """The rate that is judged: tokens per device-second, or whole steps where the work is the same."""
    raw: Estimate | None
    unsteady: tuple[str, ...]
    has_reward_drop: bool
    moved: str = ""


def judge(facts: Facts) -> tuple[SpeedVerdict, str]:
    """Return the verdict and its sentence."""
    blocker = _blocker(facts)
    if blocker is not None:
        return SpeedVerdict.NO_PROOF, blocker
    measure = facts.measure
    if measure is None or measure.ratio.low is None or measure.ratio.high is None:
        return SpeedVerdict.NO_PROOF, "Nothing that both sides log can be compared"
    said = f"{percent(measure.ratio)} {measure.name} ({_interval(measure.ratio)}, {_n(measure)})"
    moved = _moved(facts)
    if measure.ratio.low > 1:
        return SpeedVerdict.FASTER, f"B is faster: {said}{moved}"
    if measure.ratio.high < 1:
        return SpeedVerdict.SLOWER, f"B is slower: {said}{moved}"
    return SpeedVerdict.NO_PROOF, f"{said} is within what two launches of one configuration differ by{moved}"


def percent(ratio: Estimate) -> str:
    """Return ``+9.4 %``."""
    return f"{(ratio.value - 1) * 100:+.3g} %"


def _blocker(facts: Facts) -> str | None:
    if facts.unsteady:
        return f"{'; '.join(facts.unsteady)}: wait for steady steps before comparing"
    if facts.work.sameness == "differs":
        named = facts.work.declared() or facts.work.differences
        listed = ", ".join(work_text(one) for one in named[:3])
        return f"Not the same work ({listed}), so step times{_raw(facts.raw)} say nothing{_rate(facts.measure)}"
    if facts.measure is None and facts.raw is None:
        return "Nothing is timed on both sides under the same name"
    if facts.measure is None:
        return f"{UNKNOWN_WORK}, so step times{_raw(facts.raw)} prove nothing{_moved(facts)}"
    if facts.work.sameness == "unknown":
        return f"{UNKNOWN_WORK}{_rate(facts.measure)}"
    if facts.has_reward_drop:
        return f"The reward fell with the change{_rate(facts.measure)}; speed that costs reward is no speed-up"
    return None


def _moved(facts: Facts) -> str:
    return f"; {facts.moved}" if facts.moved else ""


def _raw(raw: Estimate | None) -> str:
    return "" if raw is None else f" ({(1 / raw.value - 1) * 100:+.3g} %)"


def _rate(measure: Measure | None) -> str:
    if measure is None:
        return ""
    clear = measure.ratio.low is not None and measure.ratio.high is not None
    inside = clear and (measure.ratio.low or 0) <= 1 <= (measure.ratio.high or 0)
    chance = ", within chance" if inside else ""
    return f"; {measure.name} {percent(measure.ratio)} ({_interval(measure.ratio)}, {_n(measure)}{chance})"


def _interval(ratio: Estimate) -> str:
    if ratio.low is None or ratio.high is None:
        return "no interval"
    return f"{(ratio.low - 1) * 100:+.2g} % to {(ratio.high - 1) * 100:+.2g} %"


def _n(measure: Measure) -> str:
    return f"n={measure.a.n} and {measure.b.n}"
