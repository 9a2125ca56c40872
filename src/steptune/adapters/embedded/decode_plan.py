"""How many decode iterations a rollout batch takes, and with how many rows: the engine's scheduling, in counts.

Mirrors `engine/generation.py` without tensors; a test holds the two against each other.
"""

from collections import Counter
from collections.abc import Sequence

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
