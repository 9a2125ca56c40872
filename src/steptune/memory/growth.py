"""Memory that an engine leaves in use after it fell asleep, step by step: growth is an alarm before the failure.

The surprise: the same growth has two causes. Where nothing else works on the card it is what the engine or the weight
sync keeps (N09: 4 -> 25 GiB, failure later in training). Where the trainer allocates between two sleeps it is the
trainer's own cache (T05: DeepSpeed, 48 -> 77 GiB), and calling it a leak would be wrong. And the first sleep comes
before any training, so that a step up after it is no growth: 4.6, 4.6, 10.0, 7.0, 10.5, 7.5, 7.5 GiB is level.
"""

from collections.abc import Sequence
from itertools import pairwise

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Paste, Series, ValueStatus
from steptune.core.profile import Origin
from steptune.stats.trend import rises, theil_sen_slope, thinned

SERIES = "memory_after_sleep_gib"
"""Canonical name of the series (see `core.paste.Series`)."""

MIN_POINTS = 3
"""Fewest sleeps in which growth can be told from one wild value."""

TREND_POINTS = 6
"""Sleeps from which the rest is tested for a trend without its first third, which may lie before any training."""

GROWTH_GIB = 2.0
"""Smallest growth worth an alarm; repeated sleeps of one setting differ by under 1 GiB (T05: 49.25 and 48.55)."""

REPEAT_GIB = 1.0
"""What repeated sleeps of one setting differ by (see `GROWTH_GIB`): a larger fall ends a climb."""

MIN_RISES = 2
"""Rises of `GROWTH_GIB` that a few sleeps must show: one is the step from before training to after it."""

SMALL_REST_GIB = 12.0
"""Rest after the first sleep below which the trainer's state is clearly not on the card (CUDA context, graphs and
communicators take 1 to 8 GiB in public logs: 1.19, 4.11, 7.8)."""


def growth_finding(paste: Paste) -> Finding | None:
    """Return the finding on the rest after sleep, or None where it does not go on growing."""
    series = next((one for one in paste.series if one.name == SERIES and grows(one.finite())), None)
    if series is None:
        return None
    values = series.finite()
    path = " -> ".join(f"{value:.1f}" for value in values[:6])
    is_trainer = values[0] > SMALL_REST_GIB
    return Finding(
        code="memory/after_sleep_growth",
        kind=FindingKind.MEMORY,
        severity=Severity.WARNING,
        title=f"Memory in use after sleep grows: {path} GiB"
        + (", most likely the trainer's own (it is on the card when the engine sleeps)" if is_trainer else ""),
        evidence=_evidence(series),
        remedies=_trainer_remedies() if is_trainer else _engine_remedies(),
    )


def grows(values: Sequence[float]) -> bool:
    """Return whether what is left after sleep (GiB, in order) goes on growing.

    A few sleeps must climb: more than one large rise and no fall. Longer series must rise by more than chance, as a
    whole and still after their first third.
    """
    if len(values) < MIN_POINTS or values[-1] - values[0] < GROWTH_GIB:
        return False
    if len(values) < TREND_POINTS:
        steps = [late - early for early, late in pairwise(values)]
        return min(steps) >= -REPEAT_GIB and sum(step >= GROWTH_GIB for step in steps) >= MIN_RISES
    later = thinned(values[len(values) // 3 :])
    return rises(values) and rises(later) and theil_sen_slope(later) * (len(later) - 1) >= GROWTH_GIB


def _evidence(series: Series) -> tuple[Evidence, ...]:
    kept = [point for point in series.points if point.status is not ValueStatus.IMPLAUSIBLE]
    return tuple(
        Evidence(
            text=f"{point.value:.2f} GiB still in use after sleep",
            origin=Origin(path=series.path, line=point.line, key=series.key),
        )
        for point in (kept[0], kept[-1])
    )


def _engine_remedies() -> tuple[Remedy, ...]:
    return (
        Remedy(
            text="The failing line will be elsewhere (training), the cause is what sleep no longer frees: compare with "
            "the engine version before, and watch this number each step",
            source="https://github.com/NVIDIA-NeMo/RL/issues/2619",
        ),
    )


def _trainer_remedies() -> tuple[Remedy, ...]:
    return (
        Remedy(
            text="Do not call it a leak of the engine yet: gradients, optimizer states and the allocator's cache of "
            "the first training steps appear here too; a leak would go on growing after the second full cycle",
            source="https://github.com/huggingface/trl/issues/4086",
        ),
        Remedy(
            text="Empty the trainer's allocator cache before the engine wakes, if wake-up fails",
            source="https://docs.vllm.ai/en/latest/features/sleep_mode.html",
        ),
    )
