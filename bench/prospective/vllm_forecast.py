"""The paged-cache model on vLLM: what counts cost off equal rows and the job's batches, counts by simulation.

::

    prices      `vllm_costs`: seconds = turn + a x iterations + b x rows + c x cached tokens + d x positions
    incumbent   `cluster.paged_batch` under its limits, batch by batch of the profiled lengths
    candidate   the same under its own; the ratio of both is the forecast

Surprise: vLLM computes a prompt inside an iteration that also decodes, and that iteration makes the row's first token:
a prompt costs its positions, and no base.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from prospective.backend import Settled, Told
from prospective.job import Job, Moves
from prospective.job_residual import Expected, Tried, learn
from prospective.vllm_costs import NUM_PRICES, costs
from prospective.vllm_messages import VllmProfile
from prospective.vllm_space import BLOCK, num_blocks
from steptune.core.phase import Phase, Role
from steptune.engine.foreign.settings import ITERATION_TOKENS
from steptune.forecast.cluster.paged import PagedBatch, PagedKnobs, paged_batch
from steptune.forecast.cluster.step import MODEL_LOG_SD
from steptune.forecast.cluster.work import GroupShape, RowShape
from steptune.forecast.interval import Z_80

ROLLOUT = f"{Role.ROLLOUT}:{Phase.ROLLOUT}"

SIZE_FRAC = 0.12
"""Log error before any trial as a part of the log of the forecast itself: a price that is off moves all that it
prices. Prior."""

MOVE_LOG_SD = 0.02
"""The same for each moved knob that the scheduler's model takes note of, whatever it does. Prior."""

BEYOND_LOG_SD = 0.05
"""The same for each doubling of running rows beyond what was probed: the cost of a row is a line there. Prior."""

COMMON_LOG_SD = 0.02
"""What all ratios of a job share: the incumbent's level when it was profiled. Prior."""

NOISE_LOG_SD = 0.04
"""Log standard deviation of a trial's ratio, two launches and eight batches a side, before the profile's own batches
are looked at. Prior."""

NOISE_PAIRS = 4.0
"""Pairs of batches that the prior is worth."""


def forecast(job: Job, profile: VllmProfile, settled: Sequence[Settled], moves: Moves) -> Told:
    """Return candidate / incumbent with its 80 % interval; the noise of the trial that will score it is in it.

    Raises:
        ForecastError: the profile lacks a probe, or the cache does not hold the longest row.
    """
    tried = [_tried(job, profile, trial) for trial in settled]
    wanted = _expected(job, profile, moves)
    learnt = learn(tried, wanted, common=COMMON_LOG_SD, noise=noise_log_sd(profile))
    ratio = raw_ratio(job, profile, moves) * math.exp(learnt.log_correction)
    width = math.exp(Z_80 * math.hypot(learnt.log_sd, learnt.noise))
    return Told(ratio=ratio, low=ratio / width, high=ratio * width, num_free_parameters=NUM_PRICES)


def noise_log_sd(profile: VllmProfile) -> float:
    """Return the log deviation of a trial's ratio: the prior, and what batches of the same lengths differed by.

    A difference d of two logs stands for a variance of d² / 2 a batch, and eight to eight for a quarter of it.
    """
    seconds: dict[tuple[int, ...], list[float]] = {}
    for lengths, batch in zip(profile.lengths, profile.batches, strict=True):
        seconds.setdefault(lengths, []).append(batch.seconds)
    seen = [math.log(b / a) ** 2 / 8 for own in seconds.values() for a, b in pairwise(own)]
    return math.sqrt((NOISE_PAIRS * NOISE_LOG_SD**2 + math.fsum(seen)) / (NOISE_PAIRS + len(seen)))


def raw_ratio(job: Job, profile: VllmProfile, moves: Moves) -> float:
    """Return the model's own ratio of makespans."""
    candidate, incumbent = (math.fsum(batch.seconds for batch in modelled(job, profile, m)) for m in (moves, {}))
    return candidate / incumbent


def modelled(job: Job, profile: VllmProfile, moves: Moves) -> list[PagedBatch]:
    """Return a batch of every profiled list of lengths under ``moves``."""
    settings, prices = job.settings(moves), costs(profile)
    rows, at_once = settings["max_num_seqs"], settings["client_rows"]
    assert isinstance(rows, int)
    knobs = PagedKnobs(
        max_rows=rows,
        num_blocks=num_blocks(job, settings["kv_frac"]) - 1,
        block_tokens=BLOCK,
        keeps_prefixes=bool(settings["prefix_caching"]),
        max_positions=ITERATION_TOKENS,
        at_once=at_once if isinstance(at_once, int) else None,
    )
    is_sorted = settings["order"] == "longest_first"
    return [paged_batch(knobs, prices, _groups(job, profile, own, is_sorted)) for own in dict.fromkeys(profile.lengths)]


def _groups(job: Job, profile: VllmProfile, lengths: Sequence[int], is_sorted: bool) -> list[GroupShape]:
    size = job.group_size
    groups = [
        GroupShape(prompt=profile.prompt_len, rows=tuple(RowShape(tokens=n) for n in lengths[i : i + size]))
        for i in range(0, len(lengths), size)
    ]
    return sorted(groups, key=_longest_first) if is_sorted else groups


def _longest_first(group: GroupShape) -> int:
    return -max(row.tokens for row in group.rows)


def _expected(job: Job, profile: VllmProfile, moves: Moves) -> Expected:
    size = SIZE_FRAC * math.log(raw_ratio(job, profile, moves))
    beyond = BEYOND_LOG_SD * max(math.log2(_most_rows(job, moves) / _probed_rows(profile)), 0.0)
    log_sd = math.hypot(MODEL_LOG_SD, size, beyond, MOVE_LOG_SD * math.sqrt(len(moves)))
    return Expected(moves=moves, log_sd=log_sd)


def _tried(job: Job, profile: VllmProfile, trial: Settled) -> Tried:
    log_error = math.log(trial.pair.ratio / raw_ratio(job, profile, trial.moves))
    return Tried(expected=_expected(job, profile, trial.moves), log_error=log_error)


def _most_rows(job: Job, moves: Moves) -> int:
    """Rows that may decode at once."""
    settings = job.settings(moves)
    limits = (settings["max_num_seqs"], settings["client_rows"], job.prompts_per_step * job.group_size)
    return min(limit for limit in limits if isinstance(limit, int))


def _probed_rows(profile: VllmProfile) -> int:
    return max(probe.rows for probe in profile.probes)
