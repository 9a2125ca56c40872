"""The public runs as typed rows, unknown as None: what a step model may be scored on.

Surprise: the same column means two things. ``gen_s`` is the whole generation in a synchronous row and only the wait
that overlap left in an asynchronous one; ask `full_gen_s` or `exposed_wait_s`. `train_s` of an asynchronous verl
row is its own role's time, contains the log-probabilities and may be longer than the step.
"""

import json
from enum import StrEnum
from functools import cache

from pydantic import JsonValue

from steptune.core.records import Record
from steptune.published.split import Side, owner_of, side_of
from steptune.published.table import read_rows

SMALL_BATCH_SAMPLES = 64
"""Samples a step at or below which a row measures fixed costs only: kept out of the headline (issue: small batches)."""

_TEXT_COLUMNS = frozenset({"other_settings"})


class GenKind(StrEnum):
    """What `gen_s` of a row is."""

    FULL = "full"
    """All seconds of generation."""
    EXPOSED_WAIT = "exposed_wait"
    """The part the trainer waited for; generation itself ran longer."""


class PublicRun(Record):
    """One configuration as published.

    Example: ``PublicRun(id="verl-fa-7b-128-colocate", n_gpus=128, placement="colocated", step_time_s=356.3, ...)``.
    """

    id: str
    source: str
    """Repository, path and commit, or a link."""
    framework: str
    version: str | None = None
    model: str | None = None
    algorithm: str | None = None
    workload: str | None = None
    hardware: str | None = None
    n_gpus: float | None = None
    placement: str | None = None
    """``colocated``, ``disaggregated``, ``trainer only`` or the source's own word."""
    gpus_train: float | None = None
    gpus_rollout: float | None = None
    prompts_per_step: float | None = None
    group_size: float | None = None
    max_prompt_len: float | None = None
    max_response_len: float | None = None
    mean_response_len: float | None = None
    mean_total_len: float | None = None
    train_tp: float | None = None
    train_pp: float | None = None
    train_cp: float | None = None
    train_ep: float | None = None
    train_dp: float | None = None
    rollout_tp: float | None = None
    rollout_ep: float | None = None
    rollout_dp: float | None = None
    micro_batch: str | None = None
    packing: str | None = None
    recompute: str | None = None
    precision_train: str | None = None
    precision_rollout: str | None = None
    async_lag: str | None = None
    """``0``, a number of steps, or the source's own bound in words."""
    other_settings: dict[str, JsonValue] = {}
    step_time_s: float | None = None
    gen_s: float | None = None
    """Meaningless without `gen_kind`."""
    logprob_s: float | None = None
    ref_s: float | None = None
    train_s: float | None = None
    sync_s: float | None = None
    reward_s: float | None = None
    other_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    reward_or_accuracy: str | None = None
    job_group: str | None = None
    """Rows of one job in different configurations share it."""
    row_kind: str
    """What was timed: ``full_step``, ``phase_only``, ``trainer_only``, ``rollout_only`` ..."""
    gen_kind: GenKind | None = None
    steps_averaged: str | None = None
    step_time_std: str | None = None
    quality: str
    """A read in the source, B in a thread or a copy, C sanity only."""
    gpu_type: str | None = None
    missing_key_fields: str | None = None
    notes: str | None = None

    @property
    def owner(self) -> str:
        """Owner of the source's repository: the unit of the split."""
        return owner_of(self.source)

    @property
    def side(self) -> Side:
        """Whether constants may be fitted on it."""
        return side_of(self.source)

    @property
    def full_gen_s(self) -> float | None:
        """Seconds of all generation, where the row states those."""
        return self.gen_s if self.gen_kind is GenKind.FULL else None

    @property
    def exposed_wait_s(self) -> float | None:
        """Seconds the trainer waited for generation, where the row states those."""
        return self.gen_s if self.gen_kind is GenKind.EXPOSED_WAIT else None

    @property
    def is_async(self) -> bool | None:
        """Whether samples may be older than the weights that train on them; None when the row does not say."""
        return None if self.async_lag is None else self.async_lag != "0"

    @property
    def samples_per_step(self) -> float | None:
        """Responses a step trains on."""
        if self.prompts_per_step is None or self.group_size is None:
            return None
        return self.prompts_per_step * self.group_size

    @property
    def is_small_batch(self) -> bool:
        """Whether its step is known to be fixed costs only; an unknown batch is not."""
        samples = self.samples_per_step
        return samples is not None and samples <= SMALL_BATCH_SAMPLES


@cache
def public_runs() -> tuple[PublicRun, ...]:
    """Return every row of the table, in its order."""
    return tuple(_typed(row) for row in read_rows("public_runs.csv"))


def _typed(row: dict[str, str]) -> PublicRun:
    stated: dict[str, object] = {name: text for name, text in row.items() if text and name not in _TEXT_COLUMNS}
    stated["other_settings"] = json.loads(row["other_settings"] or "{}")
    return PublicRun.model_validate(stated)
