"""The makespan model on vLLM: the decode curve off the drain of watched batches, limits as the server was started.

The incumbent's own batches set the scale; its counters set the shape. Surprise: vLLM computes a prompt inside an
iteration that also decodes, and that iteration makes the row's first token: a prompt costs its positions, and no base.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from prospective.backend import Settled, Told
from prospective.job import Job, Moves
from prospective.vllm_messages import VllmProfile
from prospective.vllm_space import BLOCK, num_blocks
from steptune.core.event import LearntFrom
from steptune.core.phase import Phase, Role
from steptune.forecast.cluster.calibrate import line
from steptune.forecast.cluster.decode import DrainPoint, curve_from_drain
from steptune.forecast.cluster.makespan import makespan
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.step import MODEL_LOG_SD
from steptune.forecast.cluster.work import GroupShape, RowShape, Work
from steptune.forecast.interval import Z_80
from steptune.forecast.residual import learn

ROLLOUT = f"{Role.ROLLOUT}:{Phase.ROLLOUT}"

MOVE_LOG_SD = 0.035
"""Log error per moved knob before any trial. Prior; fitted on no trial of the campaign."""

BEYOND_LOG_SD = 0.1
"""The same for each doubling of running rows beyond what the profile ran: the curve is a line there. Prior."""

NOISE_LOG_SD = 0.03
"""Log standard deviation of a trial's ratio. Prior."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """A modelled batch: ``Rollout(seconds=2.1, peak_rows=24, preempted=3.5)``."""

    seconds: float
    preempted: float
    """Rows thrown out, per batch."""


def forecast(job: Job, profile: VllmProfile, settled: Sequence[Settled], moves: Moves) -> Told:
    """Return candidate / incumbent with its 80 % interval.

    Raises:
        ForecastError: the drain holds no iteration, or the cache does not hold the longest row.
    """
    raw = raw_ratio(job, profile, moves)
    history = [
        LearntFrom(
            change=job.change(trial.moves),
            raw_forecast_ratio=raw_ratio(job, profile, trial.moves),
            measured_ratio=trial.pair.candidate_phases_s[ROLLOUT] / trial.pair.incumbent_phases_s[ROLLOUT],
        )
        for trial in settled
    ]
    beyond = BEYOND_LOG_SD * max(math.log2(_most_rows(job, moves) / _seen_rows(profile)), 0.0)
    if history:
        residuals, change = learn(history, NOISE_LOG_SD), job.change(moves)
        raw *= math.exp(residuals.log_correction(change))
        moves_sd = math.sqrt(residuals.variance(change))
    else:
        moves_sd = MOVE_LOG_SD * math.sqrt(len(moves))
    width = math.exp(Z_80 * math.hypot(MODEL_LOG_SD, moves_sd, beyond))
    num_free = len(costs(profile).decode.rows) + 4
    return Told(ratio=raw, low=raw / width, high=raw * width, num_free_parameters=num_free)


def raw_ratio(job: Job, profile: VllmProfile, moves: Moves) -> float:
    """Return the model's own ratio of makespans, a batch's fixed seconds on both sides."""
    work = _work(job, profile)
    own, fixed_s = modelled(job, profile, {}, work).seconds, _fixed_s(profile)
    quiet = [batch.seconds for batch in profile.batches if not batch.is_watched]
    scale = (fmean(quiet) - fixed_s) / own
    sides = [modelled(job, profile, m, work).seconds * scale + fixed_s for m in (moves, {})]
    return sides[0] / sides[1]


def modelled(job: Job, profile: VllmProfile, moves: Moves, work: Work) -> Rollout:
    """Return the mean batch under ``moves``, before any scale."""
    settings, prices = job.settings(moves), costs(profile)
    shares = bool(settings["prefix_caching"]) and profile.prompt_len > BLOCK
    knobs = RolloutKnobs(
        num_replicas=1,
        max_rows=_most_rows(job, moves),
        kv_tokens=(num_blocks(job, settings["kv_frac"]) - 1) * BLOCK,
        share_prefill=shares,
        shares_cache=shares,
        unfilled_tokens=_unfilled(work),
    )
    if settings["order"] == "longest_first":
        work = replace(work, steps=tuple(tuple(sorted(step, key=_longest_first)) for step in work.steps))
    if settings["client_rows"] is not None:
        work = _with_a_gap(work)
    made = [makespan(knobs, prices, work, step=i) for i in range(len(work.steps))]
    return Rollout(seconds=fmean(m.seconds for m in made), preempted=fmean(m.num_preempted for m in made))


def costs(profile: VllmProfile) -> RolloutCosts:
    """Return the prices of the profiled server.

    Raises:
        ForecastError: the watched batches hold no iteration without prompts.
    """
    capacity = (profile.num_blocks - 1) * BLOCK
    readings = [reading for batch in profile.batches for reading in batch.readings if reading.iterations]
    points = [
        DrainPoint(
            running=r.generated_tokens / r.iterations,
            cached_tokens=r.kv_usage_frac * capacity,
            seconds=r.seconds / r.iterations,
            iterations=r.iterations,
        )
        for r in readings
        if r.prompt_tokens == 0 and r.num_preemptions == 0
    ]
    _, per_token_s = line(_fastest(profile.prefills))
    return RolloutCosts(decode=curve_from_drain(points), prefill_per_token_s=per_token_s)


def _fixed_s(profile: VllmProfile) -> float:
    """Seconds of a batch that no token explains: its first request's way there and its last answer's way back."""
    base_s, _ = line(_fastest(profile.prefills))
    one = costs(profile).decode.base_s(1)
    return max(base_s - one, 0.0)


def _work(job: Job, profile: VllmProfile) -> Work:
    size, prompt = job.group_size, profile.prompt_len
    steps = tuple(
        tuple(
            GroupShape(prompt=prompt, rows=tuple(RowShape(tokens=n) for n in lengths[i : i + size]))
            for i in range(0, len(lengths), size)
        )
        for lengths in profile.lengths
    )
    return Work(steps=steps, max_completion=job.lengths.longest)


def _with_a_gap(work: Work) -> Work:
    """Add the iteration that a slot stays empty: the next one has begun when the client's next request comes."""
    steps = tuple(
        tuple(replace(g, rows=tuple(RowShape(tokens=row.tokens + 1) for row in g.rows)) for g in step)
        for step in work.steps
    )
    return replace(work, steps=steps, max_completion=work.max_completion + 1)


def _unfilled(work: Work) -> int:
    """Return the tokens of a row's last block that stay empty, averaged over every iteration of every row."""
    lives = [(group.prompt, row.tokens) for step in work.steps for group in step for row in group.rows]
    empty = [-(prompt + made) % BLOCK for prompt, tokens in lives for made in range(tokens)]
    return round(fmean(empty))


def _longest_first(group: GroupShape) -> int:
    return -max(row.tokens for row in group.rows)


def _most_rows(job: Job, moves: Moves) -> int:
    """Rows that may decode at once."""
    settings = job.settings(moves)
    limits = (settings["max_num_seqs"], settings["client_rows"], job.prompts_per_step * job.group_size)
    return min(limit for limit in limits if isinstance(limit, int))


def _seen_rows(profile: VllmProfile) -> float:
    """Return the most rows that the watched batches ran at once, over a reading."""
    return costs(profile).decode.rows[-1]


def _fastest(prefills: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return the fastest time of each size: whatever else ran made the others longer."""
    return [(n, min(s for m, s in prefills if m == n)) for n in sorted({n for n, _ in prefills})]
