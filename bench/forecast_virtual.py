"""Forecasts against the virtual cluster: device counts and asynchronous regimes it was not calibrated on.

`python bench/forecast_virtual.py --seed N [--quick]` draws jobs by seed. Of each, *one* configuration runs on the
virtual cluster for a few steps and is logged as an engine would log it, with noise on every span; from that log alone
the step model forecasts another configuration, which the virtual cluster then runs on *other* lengths of the same
distribution. Scored: |forecast ratio / true ratio - 1| of step times and whether its 80 % interval held it, P(lag = k)
and mean lag, beside `no change` and `time goes with devices`, and beside the same true ratio on two draws of lengths
(the floor that no forecast can beat).

A queue is forecast twice: from eight steps, and from as many as the first forecast asked for to tell P(lag) within
0.05 (`LagForecast.groups_needed`), at most MOST_STEPS. Rows already in `--rows FILE` are kept, and after `--budget`
CPU seconds no new one is begun, so a draw can be run in pieces; what is in a row depends on its seed alone.

What both sides share: `steptune.core` and `steptune.forecast.cluster` imports nothing of `steptune.engine`; the
virtual cluster imports nothing of the forecaster. They agree on what a continuous-batching engine, a staleness bound
and a ring reduction *are*, so this measures calibration, extrapolation and the draw of lengths, not whether a real
engine behaves like that. Prices are invented curves with bends that the forecast's shapes do not contain.
"""

import argparse
import json
import math
import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from forecast_virtual_jobs import LIMIT, Job, draw_job
from forecast_virtual_rows import Row, Rows, summary
from forecast_virtual_runs import HEALTHY, PROFILED_STEPS, Slow, profile, same_lengths, truth
from steptune.forecast.cluster.lag import WITHIN, LagForecast, lag_forecast
from steptune.forecast.cluster.parameters import parameter_table
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.ratio import forecast_ratio, sampled_ratio
from steptune.forecast.cluster.resample import answers, other_profiles
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import step_seconds
from steptune.forecast.cluster.train_side import TrainKnobs
from steptune.forecast.interval import RatioInterval

HERE = Path(__file__).resolve().parent
NUM_COUNTS, NUM_ASYNC = 12, 12
STARVED_TRAINERS = (0.5, 0.8)
"""Part of the devices that train where the trainer is to be starved."""
WHAT = "virtual cluster only: every second is one of its own clock, none of a wall clock, no real engine ran"
NOT_HELD = 0.95
"""P(lag = bound) below which a configuration is not held at its bound."""
MOST_STEPS = 64
"""Steps a profile is lengthened to at most."""
MOST_ROUNDS = 2
"""Times a profile is lengthened: the second time for what the first forecast misjudged."""


def base_cluster(job: Job, draw: random.Random, num_devices: int) -> Cluster:
    """Draw the profiled configuration: sync or one step off."""
    is_colocated = draw.random() < 0.3
    trainers = num_devices if is_colocated else max(1, round(num_devices * draw.uniform(0.25, 0.6)))
    kv_tokens = draw.choice([None, None, (LIMIT + job.prompt) * 3])
    return Cluster(
        rollout=RolloutKnobs(
            num_replicas=num_devices if is_colocated else num_devices - trainers,
            routing=draw.choice(["round_robin", "least_loaded"]),
            max_rows=draw.choice([None, 16, 64]),
            kv_tokens=kv_tokens,
            num_env_workers=64,
        ),
        train=TrainKnobs(num_ranks=trainers, balance="tokens", micro_batch_tokens=2048),
        queue=QueueKnobs(schedule="sync" if is_colocated else draw.choice(["sync", "one_step_off"])),
        is_colocated=is_colocated,
    )


def other_count(cluster: Cluster, draw: random.Random) -> Cluster:
    """Change both sides' devices by up to a factor of two either way, at least a quarter."""
    factor = draw.choice([0.5, 0.6, 0.71, 1.4, 1.7, 2.0])

    def scaled(n: int) -> int:
        return max(1, round(n * factor))

    if cluster.is_colocated:
        both = scaled(cluster.train.num_ranks)
        return replace(
            cluster,
            rollout=replace(cluster.rollout, num_replicas=both),
            train=replace(cluster.train, num_ranks=both),
        )
    return replace(
        cluster,
        rollout=replace(cluster.rollout, num_replicas=scaled(cluster.rollout.num_replicas)),
        train=replace(
            cluster.train, num_ranks=max(1, round(cluster.train.num_ranks * draw.choice([0.5, 1.0, factor])))
        ),
    )


def draw_slow(base: Cluster, draw: random.Random) -> Slow:
    """Draw stragglers: of a replica where the sides take turns, of a rank where three can be compared."""
    replica, rank = (draw.uniform(1.5, 3.0),), (draw.uniform(1.2, 2.0),)
    has_replica, has_rank = draw.random() < 0.25, draw.random() < 0.25
    return Slow(
        replica=replica if has_replica and base.queue.schedule == "sync" else (),
        rank=rank if has_rank and base.train.num_ranks >= 3 else (),
    )


def count_row(seed: int) -> Row:
    """Score one device-count what-if."""
    draw = random.Random(seed)
    job = draw_job(draw)
    base = base_cluster(job, draw, draw.choice([8, 16, 24, 32]))
    other = other_count(base, draw)
    slow = draw_slow(base, draw)
    sides = profile(job, base, seed, slow)
    (base_s, _), (other_s, _) = (truth(job, c, seed + 10_000, slow) for c in (base, other))
    again = truth(job, other, seed + 20_000, slow)[0] / truth(job, base, seed + 20_000, slow)[0]
    ratio, made = other_s / base_s, forecast_ratio(sides, base, other)
    return {
        "seed": seed,
        "devices": [base.num_devices, other.num_devices],
        "split": [str(base.queue.schedule), base.train.num_ranks, other.train.num_ranks],
        "true_ratio": round(ratio, 4),
        "forecast_ratio": [round(r, 4) for r in (made.low, made.mid, made.high)],
        "is_covered": made.low <= ratio <= made.high,
        "error": abs(made.mid / ratio - 1),
        "baseline_step_error": step_seconds(sides, base) / base_s - 1,
        "floor": abs(again / ratio - 1),
        "no_change": abs(1 / ratio - 1),
        "by_devices": abs(base.num_devices / other.num_devices / ratio - 1),
        "slow": [*(f"replica {f:.2f}" for f in slow.replica), *(f"rank {f:.2f}" for f in slow.rank)],
        "job": jitter_of(job),
        "num_free": sides.parameters.num_free,
    }


def jitter_of(job: Job) -> list[str]:
    """Name what a job has of tools, pauses and unequal updates."""
    has = {"tools": job.tool_s, "pauses": job.pause_chance, "updates": job.update_log_sd}
    return [name for name, value in has.items() if value > 0]


def other_queue(base: Cluster, draw: random.Random, num_devices: int, *, is_starved: bool) -> Cluster:
    """Draw an asynchronous configuration; a starved one has few replicas, each of few rows."""
    few, many = STARVED_TRAINERS if is_starved else (0.2, 0.75)
    trainers = min(max(1, round(num_devices * draw.uniform(few, many))), num_devices - 1)
    rows = draw.choice([4, 8, 16]) if is_starved else draw.choice([None, 8, 16])
    return Cluster(
        rollout=replace(base.rollout, num_replicas=num_devices - trainers, max_rows=rows),
        train=replace(base.train, num_ranks=trainers),
        queue=QueueKnobs(
            schedule="async", max_lag=draw.choice([1, 2, 3, 4]), consume=draw.choice(["in_order", "first_done"])
        ),
    )


@dataclass(frozen=True, kw_only=True)
class QueueForecast:
    """What a profile of so many steps says of one queue."""

    num_steps: int
    ratio: RatioInterval
    lag: LagForecast
    step_ratio: float
    """The ratio of the profile's own rows alone."""


def queue_forecast(job: Job, base: Cluster, other: Cluster, seed: int, num_steps: int) -> tuple[Sides, QueueForecast]:
    """Profile so many steps and forecast."""
    sides = profile(job, base, seed, HEALTHY, num_steps)
    others = other_profiles(sides.work, seed=seed)
    base_answers, own_answers = (answers(sides, others, c) for c in (base, other))
    mid = step_seconds(sides, other) / step_seconds(sides, base)
    return sides, QueueForecast(
        num_steps=num_steps,
        ratio=sampled_ratio(base_answers, own_answers),
        lag=lag_forecast(own_answers, num_groups=sides.work.num_logged_groups),
        step_ratio=mid,
    )


def forecasts(job: Job, base: Cluster, other: Cluster, seed: int) -> list[tuple[Sides, QueueForecast]]:
    """Forecast from a short profile, then from as long a one as the forecast before asked for."""
    made = [queue_forecast(job, base, other, seed, PROFILED_STEPS)]
    for _ in range(MOST_ROUNDS):
        last = made[-1][1]
        steps = min(math.ceil(last.lag.groups_needed(WITHIN) / job.groups), MOST_STEPS)
        if steps <= last.num_steps:
            break
        made.append(queue_forecast(job, base, other, seed, steps))
    return made


def async_row(seed: int) -> Row:
    """Score one asynchronous configuration forecast from a synchronous profile; odd seeds are starved by rule."""
    draw = random.Random(seed)
    job = draw_job(draw)
    num_devices = draw.choice([8, 16, 24])
    base = base_cluster(job, draw, num_devices)
    other = other_queue(base, draw, num_devices, is_starved=seed % 2 == 1)
    made = forecasts(job, base, other, seed)
    (base_s, _), (other_s, lag) = (truth(job, c, seed + 10_000) for c in (base, other))
    again_lag = truth(job, other, seed + 20_000)[1]
    ratio = other_s / base_s
    return {
        "seed": seed,
        "bound": other.queue.max_lag,
        "consume": other.queue.consume,
        "split": [other.train.num_ranks, other.rollout.num_replicas],
        "is_starved_by_rule": seed % 2 == 1,
        "max_rows": other.rollout.max_rows,
        "job": jitter_of(job),
        "groups_per_step": job.groups,
        "true_ratio": round(ratio, 4),
        "true_lag": {k: round(p, 3) for k, p in lag.items()},
        "lag_floor": widest(lag, again_lag),
        "mean_lag_floor": abs(mean_lag(lag) - mean_lag(again_lag)),
        "is_held_at_bound": lag.get(other.queue.max_lag, 0.0) >= NOT_HELD,
        "first": scored(made[0][1], ratio, lag),
        "last": scored(made[-1][1], ratio, lag),
        **on_same_lengths(job, base, other, seed, made[0]),
    }


def scored(made: QueueForecast, ratio: float, lag: dict[int, float]) -> Row:
    """Hold one forecast against the truth."""
    shares = {k: i.mid for k, i in made.lag.shares.items()}
    inside = [i.low <= lag.get(k, 0.0) <= i.high for k, i in made.lag.shares.items()]
    return {
        "steps": made.num_steps,
        "forecast_ratio": [round(r, 4) for r in (made.ratio.low, made.ratio.mid, made.ratio.high)],
        "is_covered": made.ratio.low <= ratio <= made.ratio.high,
        "error": abs(made.ratio.mid / ratio - 1),
        "error_of_own_rows": abs(made.step_ratio / ratio - 1),
        "forecast_lag": {k: [round(p, 3) for p in (i.low, i.mid, i.high)] for k, i in made.lag.shares.items()},
        "lag_half_width": made.lag.half_width,
        "lag_sd": [round(max(sd.values()), 4) for sd in (made.lag.profile_sd, made.lag.run_sd)],
        "groups_needed": made.lag.groups_needed(WITHIN),
        "is_told": made.lag.half_width <= WITHIN,
        "lag_error": widest(lag, shares),
        "lags_covered": [sum(inside), len(inside)],
        "mean_lag_error": abs(mean_lag(lag) - made.lag.mean),
        "would_lose": [ratio > 1, made.ratio.mid > 1],
    }


def on_same_lengths(job: Job, base: Cluster, other: Cluster, seed: int, made: tuple[Sides, QueueForecast]) -> Row:
    """Hold the short profile's forecast against the truth on the profile's own lengths."""
    sides, forecast = made
    (base_s, _), (other_s, lag) = (same_lengths(sides, job, c, seed + 30_000) for c in (base, other))
    return {
        "error_same_lengths": abs(forecast.ratio.mid / (other_s / base_s) - 1),
        "lag_error_same_lengths": widest(lag, {k: i.mid for k, i in forecast.lag.shares.items()}),
    }


def widest(a: dict[int, float], b: dict[int, float]) -> float:
    """Return the largest difference of two distributions at any lag."""
    return max(abs(a.get(k, 0.0) - b.get(k, 0.0)) for k in {*a, *b})


def mean_lag(lag: dict[int, float]) -> float:
    """Return the mean."""
    return math.fsum(k * p for k, p in lag.items())


def count_rows(rows: Rows, first: int, count: int) -> list[Row]:
    """Draw so many device counts; fewer where the budget ends."""
    found = (rows.get(seed, count_row) for seed in range(first, first + count))
    return [row for row in found if row is not None]


def async_rows(rows: Rows, first: int, count: int) -> list[Row]:
    """Draw seed after seed; once half of the rows are held at their bound, further such ones are left out."""
    kept: list[Row] = []
    for seed in range(first, first + 10 * count):
        row = rows.get(seed, async_row)
        if row is None:
            break
        if not row["is_held_at_bound"] or sum(bool(r["is_held_at_bound"]) for r in kept) < count // 2:
            kept.append(row)
        if len(kept) == count:
            break
    return kept


def main() -> int:
    """Draw, run, score, print; `--quick` draws one of each and writes nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("counts", "asyncs"))
    parser.add_argument("--rows", type=Path, help="JSON lines: rows in it are kept, new ones are added")
    parser.add_argument("--budget", type=float, default=math.inf, help="CPU seconds after which no row is begun")
    args = parser.parse_args()
    rows = Rows(path=args.rows, budget_s=args.budget)
    num_counts, num_asyncs = (1, 1) if args.quick else (NUM_COUNTS, NUM_ASYNC)
    first = args.seed * 1000
    counts = [] if args.only == "asyncs" else count_rows(rows, first, num_counts)
    asyncs = [] if args.only == "counts" else async_rows(rows, first + 500, num_asyncs)
    found = summary(counts, asyncs)
    print(json.dumps(found, indent=2))
    is_whole = len(counts) == NUM_COUNTS and len(asyncs) == NUM_ASYNC
    if args.quick or not is_whole:
        return 0
    draw = random.Random(first)
    job = draw_job(draw)
    print(parameter_table(profile(job, base_cluster(job, draw, 16), first, HEALTHY).parameters.listed))
    made = {"what": WHAT, "seed": args.seed, **found, "counts": counts, "asyncs": asyncs}
    (HERE / "results" / f"forecast_virtual_seed{args.seed}.json").write_text(json.dumps(made, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
