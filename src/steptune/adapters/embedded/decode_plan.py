"""How many decode iterations a rollout takes, and with how many rows: the engine's scheduling, in counts.

Mirrors `engine/generation.py` and `engine/stream/stream.py` without tensors; tests hold them against each other. The
surprise: a stream takes fewer iterations than the batches it is made of, as its slots do not run empty between them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

ADMIT_FRAC = 1 / 16
"""Free slots, as a part of all, at which waiting rows are admitted (`engine.generation.ADMIT_FRAC`)."""


def running_rows(
    completion_lengths_B: Sequence[int], *, concurrency: int | None, continuous: bool
) -> tuple[Counter[int], int]:
    """Return ({rows running: iterations}, number of admissions) of one batch.

    Waves: the next rows are admitted when the last row of a wave is done, finished rows running on.
    Continuous: finished rows leave, waiting ones enter as soon as enough slots are free.
    """
    capacity = min(concurrency or len(completion_lengths_B), len(completion_lengths_B))
    if not continuous:
        waves = [completion_lengths_B[i : i + capacity] for i in range(0, len(completion_lengths_B), capacity)]
        counts: Counter[int] = Counter()
        for wave in waves:
            counts[len(wave)] += max(wave)
        return counts, len(waves)
    return _continuous(list(completion_lengths_B), capacity)


def _continuous(lengths_B: list[int], capacity: int) -> tuple[Counter[int], int]:
    admit_at = max(1, int(capacity * ADMIT_FRAC))
    waiting, running = lengths_B[::-1], list[int]()
    counts: Counter[int] = Counter()
    admissions = 0
    while waiting or running:
        free = capacity - len(running)
        if waiting and (not running or free >= admit_at):
            admissions += 1
            running += [waiting.pop() for _ in range(min(free, len(waiting)))]
        counts[len(running)] += 1
        running = [left - 1 for left in running if left > 1]
    return counts, admissions


@final
@dataclass(kw_only=True, slots=True)
class StreamCounts:
    """What a stream, or a batch, does: ``StreamCounts(decode=Counter({8: 21, 5: 3}), prefill=Counter({48: 2}))``."""

    decode: Counter[int] = field(default_factory=Counter[int])
    """Rows running to iterations."""
    prefill: Counter[int] = field(default_factory=Counter[int])
    """Prompt positions computed at once, padding included, to how often."""
    tokens_by_age: Counter[int] = field(default_factory=Counter[int])
    """Partial rollouts only: tokens trained on, by how many steps before they were sampled."""

    def add(self, other: "StreamCounts") -> None:
        """Count what ``other`` does too."""
        self.decode.update(other.decode)
        self.prefill.update(other.prefill)


def stream_counts(
    prompt_lengths_B: Sequence[int],
    completion_lengths_B: Sequence[int],
    *,
    group_size: int,
    num_slots: int,
    share_prefill: bool,
) -> StreamCounts:
    """Count a stream from its first group until its slots are empty; groups are ``group_size`` neighbours each.

    A group is begun as soon as a whole one has room, as long as there are groups.
    """
    counts = StreamCounts()
    rows = list(zip(prompt_lengths_B, completion_lengths_B, strict=True))
    groups = [rows[i : i + group_size] for i in range(0, len(rows), group_size)][::-1]
    room = min(group_size, num_slots)
    admit_at = max(1, int(num_slots * ADMIT_FRAC))
    waiting, running = list[tuple[int, int, int]](), list[int]()
    while groups or waiting or running:
        if num_slots - len(running) - len(waiting) >= max(admit_at, room):
            while groups and num_slots - len(running) - len(waiting) >= room:
                number = len(groups)
                waiting += [(number, prompt, completion) for prompt, completion in groups.pop()]
        num_free = num_slots - len(running)
        if waiting and num_free >= min(admit_at, len(waiting)):
            admitted, waiting = waiting[:num_free], waiting[num_free:]
            running += [completion for _, _, completion in admitted]
            head_len = max(prompt for _, prompt, _ in admitted) - 1
            num_heads = len({number for number, _, _ in admitted}) if share_prefill else len(admitted)
            if head_len:
                counts.prefill[num_heads * head_len] += 1
        counts.decode[len(running)] += 1
        running = [left - 1 for left in running if left > 1]
    return counts
