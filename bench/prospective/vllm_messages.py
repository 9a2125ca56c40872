"""What a vLLM server tells of its batches: its own counters, read while one batch runs."""

from steptune.core.records import Record


class Reading(Record):
    """Between two looks at `/metrics`: ``Reading(seconds=0.05, iterations=5, generated_tokens=61, ...)``."""

    seconds: float
    iterations: int
    generated_tokens: int
    """One per running row and iteration; the gauge of running rows is that of some step before."""
    kv_usage_frac: float
    prompt_tokens: int
    """Computed, not found in the prefix cache."""
    num_preemptions: int


class BatchTimes(Record):
    """One batch."""

    step: int
    seconds: float
    """From the first request to the last answer."""
    iterations: int
    num_preemptions: int
    is_watched: bool
    readings: tuple[Reading, ...]


class VllmProfile(Record):
    """What the forecaster sees of one job."""

    settings: dict[str, str | int | float | bool | None]
    prompt_len: int
    num_blocks: int
    lengths: tuple[tuple[int, ...], ...]
    """Completion lengths of every profiled batch."""
    batches: tuple[BatchTimes, ...]
    prefills: tuple[tuple[int, float], ...]
    """(prompt tokens, seconds) of batches whose rows make one token each."""
    start_s: float
