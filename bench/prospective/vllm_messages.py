"""What a vLLM server tells of its batches: its own counters before and after, never while one runs.

Surprise: reading `/metrics` 20 times a second doubled what it was to time (iterations of 20 ms instead of 7).
"""

from steptune.core.records import Record


class BatchTimes(Record):
    """One batch: ``BatchTimes(step=4, seconds=1.7, iterations=231, prompt_tokens=600, found_tokens=0, ...)``."""

    step: int
    seconds: float
    """From the first request to the last answer."""
    iterations: int
    prompt_tokens: int
    """Of all prompts, computed or found."""
    found_tokens: int
    """Found in the prefix cache, rows that came back after a preemption included."""
    num_preemptions: int


class RowsProbe(Record):
    """Equal rows, all asked for at once: ``RowsProbe(rows=8, prompt_len=8, tokens=24, seconds=0.21, ...)``."""

    rows: int
    prompt_len: int
    """Tokens; no two prompts are alike."""
    tokens: int
    """That each row makes."""
    seconds: float
    iterations: int


class VllmProfile(Record):
    """What the forecaster sees of one job."""

    settings: dict[str, str | int | float | bool | None]
    prompt_len: int
    num_blocks: int
    lengths: tuple[tuple[int, ...], ...]
    """Completion lengths of every profiled batch."""
    batches: tuple[BatchTimes, ...]
    probes: tuple[RowsProbe, ...]
    start_s: float
