"""What speed may have cost: the reward over the same steps, and whether it was logged at all.

The surprise: a reward that *rose* is a finding too. A change that only makes steps faster cannot teach better.
"""

import math
import statistics

from steptune.compare.quality import series_evidence
from steptune.compare.side import Side
from steptune.core.comparison import SettingDifference
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.stats.noise import Z_95

REWARD_FRAC = 0.1
"""Change of a reward, as a part of its size, that counts where there is only one step a side (S08: 0.678 to 0.604)."""

RISKY = ("precision", "staleness", "unknown")
"""Effects that owe a look at the reward."""

REWARD_SHIFT = 0.02
"""Smallest change of a mean reward worth a finding, in reward units: the error of 512 samples of a 0/1 reward."""


def reward_moved(a: Side, b: Side) -> Finding | None:
    """Return the finding where the reward of the same steps moved; None where it did not or cannot be compared."""
    pairs = _same_steps(a, b)
    if not pairs:
        return None
    mine, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    before, after = statistics.fmean(mine), statistics.fmean(theirs)
    shift = after - before
    if abs(shift) < max(REWARD_SHIFT, _reward_noise(mine, theirs, before)):
        return None
    is_drop = shift < 0
    what = "fell" if is_drop else "rose"
    more = (
        "a change that costs reward is not a speed-up until repeats say otherwise"
        if is_drop
        else "a speed change should not do that: explain it (lengths, staleness, filtering) before it is credited"
    )
    return Finding(
        code="health/reward_drop" if is_drop else "health/reward_jump",
        kind=FindingKind.HEALTH,
        severity=Severity.WARNING,
        title=f"The reward {what} from {before:.3g} to {after:.3g} over the same {len(pairs)} step(s): {more}",
        evidence=tuple(series_evidence(side, "reward", "reward") for side in (a, b)),
    )


def reward_missing(a: Side, b: Side, settings: tuple[SettingDifference, ...]) -> Finding | None:
    """Return the finding where levers that may cost quality were turned and the reward is not logged on both sides."""
    risky = [one.key for one in settings if one.touches in RISKY]
    silent = [side.label for side in (a, b) if not side.steps("reward")]
    if not risky or not silent:
        return None
    return Finding(
        code="no_reward",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=f"{' and '.join(silent)} log(s) no reward: what the change may have cost is not known",
        evidence=tuple(Evidence(text=f"{key} may change more than speed") for key in risky[:4]),
    )


def _same_steps(a: Side, b: Side) -> list[tuple[float, float]]:
    series = a.paste.get_series("reward"), b.paste.get_series("reward")
    if series[0] is None or series[1] is None:
        return []
    by_step = [{p.step: p.value for p in one.points if math.isfinite(p.value)} for one in series if one is not None]
    common = by_step[0].keys() & by_step[1].keys()
    return [
        (by_step[0][step], by_step[1][step]) for step in sorted(common, key=lambda step: -1 if step is None else step)
    ]


def _reward_noise(mine: list[float], theirs: list[float], before: float) -> float:
    if len(mine) < 3:
        return REWARD_FRAC * abs(before)
    shifts = [after - start for start, after in zip(mine, theirs, strict=True)]
    return Z_95 * statistics.stdev(shifts) / math.sqrt(len(shifts))
