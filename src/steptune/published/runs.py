"""Published runs: what others measured, to say how far a step is from theirs and what differs."""

import re
from functools import cache

from steptune.core.records import Record
from steptune.published.table import read_rows

_SIZE = re.compile(r"(?<![A-Za-z0-9])A?(\d+(?:\.\d+)?)\s?[Bb](?![A-Za-z0-9])")
"""Billions of parameters in a model name: ``Qwen3-30B-A3B`` holds 30 and 3."""


class PublishedRun(Record):
    """One configuration with its step, as the source states it.

    Example: ``PublishedRun(id="nemo-v0.4-H100-16g-llama3.1-8b-instruct-lag0", step_time_s=97.7, ...)``.
    """

    id: str
    source: str
    """Repository, path and commit, or a link."""
    framework: str
    version: str = ""
    model: str = ""
    algorithm: str = ""
    gpu_type: str = ""
    n_gpus: float | None = None
    placement: str = ""
    prompts_per_step: float | None = None
    group_size: float | None = None
    max_response_len: float | None = None
    mean_response_len: float | None = None
    precision_rollout: str = ""
    async_lag: float | None = None
    step_time_s: float | None = None
    gen_s: float | None = None
    train_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    quality: str
    """``A`` read in the source, ``B`` in a thread or a copy; weaker rows are not carried."""

    @property
    def model_billions(self) -> float | None:
        """Total parameters in billions as the model's name says."""
        return billions_in(self.model)


def billions_in(model: str) -> float | None:
    """Return the total parameters in billions that a model name states, or None.

    >>> billions_in("Qwen/Qwen3-30B-A3B"), billions_in("deepseek-v3")
    (30.0, None)
    """
    sizes = [float(size) for size in _SIZE.findall(model.rstrip("/").split("/")[-1])]
    return max(sizes) if sizes else None


@cache
def published_runs() -> tuple[PublishedRun, ...]:
    """Return all rows of the table."""
    optional = PublishedRun.model_fields
    rows = read_rows("runs.csv")
    return tuple(
        PublishedRun.model_validate({k: v for k, v in row.items() if v or optional[k].is_required()}) for row in rows
    )
