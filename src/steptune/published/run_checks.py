"""The traps of the table of public runs, each as a rule that a test holds the table to.

Two sorts: *faults*, which no row may have, and *cautions*, which a row may carry and a score must respect. The rules
were written before any model was fitted on the table.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from steptune.published.levers import setting_kinds
from steptune.published.public_run import GenKind, PublicRun

SUM_TOLERANCE = 1.02
"""Phases of one step may exceed it by this factor: sources round to seconds."""

LENGTH_DRIFT_FRAC = 0.15
"""Mean answer lengths of two rows further apart than this: their step times are of different work."""

PHASE_COLUMNS = ("gen_s", "logprob_s", "ref_s", "train_s", "sync_s", "reward_s", "other_s")


class Caution(StrEnum):
    """What a reader of a row must not overlook."""

    EXPOSED_WAIT = "gen_s is the wait that overlap left, not all generation"
    OWN_ROLE = "train_s is the trainer role's own time and may be longer than the step"
    HIDDEN_LOGPROB = "log-probabilities are inside train_s"
    NO_LENGTHS = "answer lengths are not stated"
    SMALL_BATCH = "so few samples that the step is all fixed costs"
    SANITY_ONLY = "quality C: sanity only"
    ONE_STEP = "one step, not a mean"


def faults(runs: Sequence[PublicRun]) -> list[str]:
    """Return one sentence for everything that is wrong with the table; empty when it holds."""
    found = [f"{run.id}: {problem}" for run in runs for problem in _row_faults(run)]
    seen: dict[str, int] = defaultdict(int)
    for run in runs:
        seen[run.id] += 1
    found += [f"{run_id}: given {times} times" for run_id, times in seen.items() if times > 1]
    return found + _group_faults(runs)


def cautions(run: PublicRun) -> frozenset[Caution]:
    """Return what must not be overlooked in a row."""
    is_async_verl = run.framework.lower().startswith("verl") and run.exposed_wait_s is not None
    flags: Mapping[Caution, bool] = {
        Caution.EXPOSED_WAIT: run.exposed_wait_s is not None,
        Caution.OWN_ROLE: _has_own_roles(run) and run.train_s is not None,
        Caution.HIDDEN_LOGPROB: is_async_verl and run.logprob_s is None and run.train_s is not None,
        Caution.NO_LENGTHS: run.mean_response_len is None and run.mean_total_len is None,
        Caution.SMALL_BATCH: run.is_small_batch,
        Caution.SANITY_ONLY: run.quality == "C",
        Caution.ONE_STEP: run.steps_averaged == "1",
    }
    return frozenset(caution for caution, holds in flags.items() if holds)


def lengths_drifted(a: PublicRun, b: PublicRun) -> bool | None:
    """Return whether two rows answered at clearly different lengths; None when one does not say."""
    if a.mean_response_len is None or b.mean_response_len is None:
        return None
    return abs(math.log(a.mean_response_len / b.mean_response_len)) > math.log1p(LENGTH_DRIFT_FRAC)


def _has_own_roles(run: PublicRun) -> bool:
    return run.gen_kind is GenKind.EXPOSED_WAIT and run.placement != "colocated"


def _row_faults(run: PublicRun) -> Iterable[str]:
    if run.gen_s is not None and run.gen_kind is None:
        yield "gen_s without gen_kind"
    if run.gen_kind is GenKind.FULL and run.is_async and run.placement == "disaggregated":
        yield "an overlapped row whose gen_s is called full: say exposed_wait, or leave it out"
    if run.quality not in ("A", "B", "C"):
        yield f"quality must be A, B or C, got {run.quality}"
    for name in ("step_time_s", *PHASE_COLUMNS, "tokens_per_s_per_gpu"):
        value = getattr(run, name)
        # `other_s` is what the source's parts leave of the step: below zero where its parts overlap
        if value is not None and not (math.isfinite(value) and (value >= 0 or name == "other_s")):
            yield f"{name} must be a number of 0 or more, got {value}"
    unknown = sorted(run.other_settings.keys() - setting_kinds().keys())
    if unknown:
        yield f"settings that run_settings.csv does not sort: {', '.join(unknown)}"
    if not _has_own_roles(run) and run.step_time_s is not None and run.quality != "C":
        total_s = math.fsum(value for name in PHASE_COLUMNS if (value := getattr(run, name)) is not None)
        if total_s > run.step_time_s * SUM_TOLERANCE:
            yield f"phases of one timeline add up to {total_s:.4g} s of a step of {run.step_time_s:.4g} s"


def _group_faults(runs: Sequence[PublicRun]) -> list[str]:
    owners: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.job_group is not None:
            owners[run.job_group].add(run.owner)
    return [f"group {group}: rows of {sorted(names)}" for group, names in sorted(owners.items()) if len(names) > 1]
