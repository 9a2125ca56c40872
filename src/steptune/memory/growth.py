"""Memory that an engine leaves in use after it fell asleep, step by step: growth is an alarm before the failure.

The surprise: the same growth has two causes. Where nothing else works on the card it is what the engine or the weight
sync keeps (N09: 4 -> 25 GiB, failure later in training). Where the trainer allocates between two sleeps it is the
trainer's own cache (T05: DeepSpeed, 48 -> 77 GiB), and calling it a leak would be wrong.
"""

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Paste, Series, ValueStatus
from steptune.core.profile import Origin

SERIES = "memory_after_sleep_gib"
"""Canonical name of the series (see `core.paste.Series`)."""

MIN_POINTS = 3
"""Fewest sleeps in which growth can be told from one wild value."""

GROWTH_GIB = 2.0
"""Smallest growth worth an alarm; repeated sleeps of one setting differ by under 1 GiB (T05: 49.25 and 48.55)."""

SMALL_REST_GIB = 12.0
"""Rest after the first sleep below which the trainer's state is clearly not on the card (CUDA context, graphs and
communicators take 1 to 8 GiB in public logs: 1.19, 4.11, 7.8)."""


def growth_finding(paste: Paste) -> Finding | None:
    """Return the finding on the rest after sleep, or None where it does not grow."""
    series = paste.get_series(SERIES)
    values = [] if series is None else series.finite()
    if series is None or len(values) < MIN_POINTS or max(values[1:]) - values[0] < GROWTH_GIB:
        return None
    if values[-1] - values[0] < GROWTH_GIB:
        return None
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
