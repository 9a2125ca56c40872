"""Published runs: what others measured, to say how far a step is from theirs and what differs.

Surprise: these are the whole steps and throughputs of the one table of public runs (`public_run`), under our names of
the frameworks. A lag that a source gives in words is unknown here: only a number of steps can be compared.
"""

import re
from functools import cache

from steptune.core.records import Record
from steptune.published.table import read_rows

_SIZE = re.compile(r"(?<![A-Za-z0-9])A?(\d+(?:\.\d+)?)\s?[Bb](?![A-Za-z0-9])")
"""Billions of parameters in a model name: ``Qwen3-30B-A3B`` holds 30 and 3."""

FRAMEWORK_NAMES = {
    "NeMo-RL": "nemo_rl",
    "EasyR1 (verl fork)": "easyr1",
    "SkyRL": "skyrl",
    "MarinSkyRL (SkyRL)": "skyrl",
    "AReaL": "areal",
    "miles (slime fork)": "slime",
    "OpenRLHF": "openrlhf",
    "verl fully_async": "verl",
    "TRL (open-r1)": "trl",
}
"""Our name of a framework by the source's; others keep theirs."""

WHOLE_STEPS = ("full_step", "throughput_only")
"""Kinds of row that say how long a step takes."""


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
    """Return the rows that may be shown: whole steps and throughputs of quality A and B."""
    rows = read_rows("public_runs.csv")
    return tuple(_shown(row) for row in rows if row["quality"] in ("A", "B") and _says_step(row))


def _says_step(row: dict[str, str]) -> bool:
    return row["row_kind"] in WHOLE_STEPS and bool(row["step_time_s"] or row["tokens_per_s_per_gpu"])


def _shown(row: dict[str, str]) -> PublishedRun:
    fields = PublishedRun.model_fields
    kept = {name: text for name, text in row.items() if name in fields and (text or fields[name].is_required())}
    kept["framework"] = FRAMEWORK_NAMES.get(row["framework"], row["framework"])
    if not row["async_lag"].isdecimal():
        kept.pop("async_lag", None)
    return PublishedRun.model_validate(kept)
