"""Forecasts against the virtual cluster: device counts and asynchronous regimes it was not calibrated on.

`python bench/forecast_virtual.py [--quick]` draws jobs by seed. Of each, *one* configuration runs on the virtual
cluster for a few steps and is logged as an engine would log it, with noise on every span; from that log alone the step
model forecasts another configuration, which the virtual cluster then runs on *other* lengths of the same distribution.
Scored: |forecast ratio / true ratio - 1| of step times, P(lag = k) and mean lag, beside `no change` and `time goes
with devices`, and beside the same true ratio on two draws of lengths (the floor that no forecast can beat).

What both sides share: `steptune.core` and `steptune.forecast.cluster` imports nothing of `steptune.engine`; the
virtual cluster imports nothing of the forecaster. They agree on what a continuous-batching engine, a staleness bound
and a ring reduction *are*, so this measures calibration, extrapolation and the draw of lengths, not whether a real
engine behaves like that. Prices are invented curves with bends that the forecast's shapes do not contain.
"""

import argparse
import json
import math
import random
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from forecast_virtual_jobs import LIMIT, SPAN_NOISE, Jittered, Job, Logged, draw_job, draw_work, truth_work
from steptune.core.phase import Role
from steptune.engine.virtual.cluster import simulate
from steptune.engine.virtual.outcome import VirtualRun
from steptune.engine.virtual.spec import ClusterSpec, ring_s
from steptune.forecast.cluster.calibrate import MicroBatch, StepTrace, calibrate, slowdowns
from steptune.forecast.cluster.decode import DrainPoint
from steptune.forecast.cluster.lengths import sampled_log_sd
from steptune.forecast.cluster.parameters import parameter_table
from steptune.forecast.cluster.pool import Pool, fresh
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.ratio import forecast_ratio
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import forecast_step, step_seconds
from steptune.forecast.cluster.train_side import TrainKnobs
from steptune.forecast.cluster.work import Work, extended

HERE = Path(__file__).resolve().parent
PROFILED_STEPS = 8
TRUTH_STEPS, TRUTH_WARMUP = 24, 2
"""Steps of a schedule without a queue that count, and that do not."""
ASYNC_STEPS, ASYNC_WARMUP = 56, 10
"""The same with a queue: near balance the mean lag wanders for tens of steps."""
RESHUFFLED_STEPS = 32
"""Steps of the profile's groups that a forecast averages over, in other company and on other replicas."""
NUM_COUNTS, NUM_ASYNC = 12, 12
STARVED_TRAINERS = (0.5, 0.8)
"""Part of the devices that train where the trainer is to be starved."""
WHAT = "virtual cluster only: every second is one of its own clock, none of a wall clock, no real engine ran"
NOT_HELD = 0.95
"""P(lag = bound) below which a configuration is not held at its bound."""


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Seconds of the first replica and of the first rank over healthy ones'; empty where all are."""

    replica: tuple[float, ...] = ()
    rank: tuple[float, ...] = ()


HEALTHY = Slow()


def spec_of(job: Job, cluster: Cluster, *, slow: Slow = HEALTHY) -> ClusterSpec:
    """Return the same configuration in the virtual cluster's words."""
    own, queue = cluster.rollout, cluster.queue
    return ClusterSpec(
        num_trainers=cluster.train.num_ranks,
        num_replicas=own.num_replicas,
        is_colocated=cluster.is_colocated,
        schedule=queue.schedule,
        max_lag=queue.max_lag,
        consume=queue.consume,
        routing=own.routing,
        max_rows=own.max_rows,
        kv_tokens=own.kv_tokens,
        micro_batch_tokens=cluster.train.micro_batch_tokens,
        balance="tokens",
        sync_s=job.sync_s,
        allreduce_s=ring_s(job.reduce_bytes, cluster.train.num_ranks, 1.0),
        num_tool_workers=own.num_env_workers or 10_000,
        replica_slowdown=slow.replica,
        trainer_slowdown=slow.rank,
    )


def profile(job: Job, cluster: Cluster, seed: int, slow: Slow) -> Sides:
    """Run one configuration, log it, calibrate on the log."""
    work = draw_work(job, PROFILED_STEPS, seed)
    logged = Logged(costs=Jittered(job=job, draw=random.Random(seed + 2)), noise=random.Random(seed + 1))
    run = simulate(spec_of(job, cluster, slow=slow), truth_work(work), logged, num_steps=PROFILED_STEPS)
    trace = StepTrace(
        drain=tuple(DrainPoint(running=n, cached_tokens=0, seconds=s) for n, s in logged.decode),
        prefills=tuple(logged.prefill),
        micro_batches=tuple(MicroBatch(positions=n, squared=0, seconds=s) for n, s in logged.train),
        num_ranks=cluster.train.num_ranks,
        update_s=statistics.fmean(logged.updates),
        reduce_s=ring_s(job.reduce_bytes, cluster.train.num_ranks, 1.0) * logged.noise.lognormvariate(0, SPAN_NOISE),
        sync_s=job.sync_s * logged.noise.lognormvariate(0, SPAN_NOISE),
    )
    work = replace(work, length_log_sd=sampled_log_sd([group for step in work.steps for group in step]))
    longer = extended(work, RESHUFFLED_STEPS, seed=seed)
    if slow == HEALTHY:
        return Sides(parameters=calibrate(trace), work=longer)
    healthy = Sides(parameters=calibrate(trace), work=work)
    told = replace(
        trace,
        replica_slowdown=slowdowns(busy_s(run, Role.ROLLOUT), model_busy_s(healthy, cluster)) if slow.replica else (),
        rank_slowdown=slowdowns(rank_compute_s(run, trace), [1.0] * trace.num_ranks) if slow.rank else (),
    )
    return Sides(parameters=calibrate(told), work=longer)


def busy_s(run: VirtualRun, role: Role) -> list[float]:
    """Return each device's busy seconds of a run, as a device monitor shows them."""
    busy: defaultdict[int, float] = defaultdict(float)
    for step in run.steps:
        for device in step.devices:
            if device.role is role:
                busy[device.index] += device.virtual_busy_s
    return [busy[i] for i in sorted(busy)]


def rank_compute_s(run: VirtualRun, trace: StepTrace) -> list[float]:
    """Return each rank's seconds on its own micro-batches: balanced by tokens, so healthy ones are alike."""
    together_s = len(run.steps) * (trace.update_s + trace.reduce_s + trace.sync_s)
    return [max(seconds - together_s, 0.0) for seconds in busy_s(run, Role.TRAINER)]


def model_busy_s(sides: Sides, cluster: Cluster) -> list[float]:
    """Return the same as the model has it for healthy replicas."""
    busy = [0.0] * cluster.rollout.num_replicas
    for k, step in enumerate(sides.work.steps):
        pool = Pool(cluster.rollout, sides.parameters.rollout, sides.work, on_done=lambda *_: None)
        pool.turn = k * len(step) % cluster.rollout.num_replicas
        pool.submit([fresh(i, shape) for i, shape in enumerate(step)])
        pool.run(lambda: False)
        busy = [b + s.decode + s.prefill + sides.still_s(cluster) for b, s in zip(busy, pool.spent(), strict=True)]
    return busy


def truth(job: Job, cluster: Cluster, seed: int, slow: Slow = HEALTHY) -> tuple[float, dict[int, float]]:
    """Return the true step and P(lag) on lengths of that seed."""
    return run_on(draw_work(job, sum(steps_of(cluster)), seed), job, cluster, seed, slow)


def same_lengths(sides: Sides, job: Job, cluster: Cluster, seed: int) -> tuple[float, dict[int, float]]:
    """Return the true step and P(lag) on the *profile's* lengths: what is left of an error is not their draw."""
    return run_on(extended(sides.work, sum(steps_of(cluster)), seed=seed), job, cluster, seed, HEALTHY)


def steps_of(cluster: Cluster) -> tuple[int, int]:
    """Return the steps that count and those that do not."""
    return (ASYNC_STEPS, ASYNC_WARMUP) if cluster.queue.schedule == "async" else (TRUTH_STEPS, TRUTH_WARMUP)


def run_on(work: Work, job: Job, cluster: Cluster, seed: int, slow: Slow) -> tuple[float, dict[int, float]]:
    """Run the virtual cluster; return its step and P(lag)."""
    counted, warmup = steps_of(cluster)
    costs = Jittered(job=job, draw=random.Random(seed + 2))
    run = simulate(spec_of(job, cluster, slow=slow), truth_work(work), costs, num_steps=counted + warmup)
    rows: Counter[int] = Counter()
    for step in run.steps[warmup:]:
        rows.update(step.rows_by_lag)
    return run.step_time(warmup).value, {k: n / rows.total() for k, n in sorted(rows.items())}


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


def count_row(seed: int) -> dict[str, object]:
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


def async_row(seed: int) -> dict[str, object]:
    """Score one asynchronous configuration forecast from a synchronous profile; odd seeds are starved by rule."""
    draw = random.Random(seed)
    job = draw_job(draw)
    num_devices = draw.choice([8, 16, 24])
    base = base_cluster(job, draw, num_devices)
    other = other_queue(base, draw, num_devices, is_starved=seed % 2 == 1)
    sides = profile(job, base, seed, HEALTHY)
    (base_s, _), (other_s, lag) = (truth(job, c, seed + 10_000) for c in (base, other))
    floor_lag = truth(job, other, seed + 20_000)[1]
    (same_base_s, _), (same_s, same_lag) = (same_lengths(sides, job, c, seed + 30_000) for c in (base, other))
    new = forecast_step(sides, other)
    ratio, made = other_s / base_s, forecast_ratio(sides, base, other)
    return {
        "seed": seed,
        "bound": other.queue.max_lag,
        "consume": other.queue.consume,
        "split": [other.train.num_ranks, other.rollout.num_replicas],
        "is_starved_by_rule": seed % 2 == 1,
        "max_rows": other.rollout.max_rows,
        "job": jitter_of(job),
        "true_ratio": round(ratio, 4),
        "forecast_ratio": [round(r, 4) for r in (made.low, made.mid, made.high)],
        "is_covered": made.low <= ratio <= made.high,
        "error": abs(made.mid / ratio - 1),
        "error_same_lengths": abs(made.mid / (same_s / same_base_s) - 1),
        "true_lag": {k: round(p, 3) for k, p in lag.items()},
        "forecast_lag": {k: round(p, 3) for k, p in new.lag.items()},
        "lag_error": widest(lag, new.lag),
        "lag_floor": widest(lag, floor_lag),
        "lag_error_same_lengths": widest(same_lag, new.lag),
        "mean_lag_error": abs(mean_lag(lag) - new.mean_lag),
        "mean_lag_floor": abs(mean_lag(lag) - mean_lag(floor_lag)),
        "is_held_at_bound": lag.get(other.queue.max_lag, 0.0) >= NOT_HELD,
        "would_lose": [ratio > 1, made.mid > 1],
    }


def widest(a: dict[int, float], b: dict[int, float]) -> float:
    """Return the largest difference of two distributions at any lag."""
    return max(abs(a.get(k, 0.0) - b.get(k, 0.0)) for k in {*a, *b})


def mean_lag(lag: dict[int, float]) -> float:
    """Return the mean."""
    return math.fsum(k * p for k, p in lag.items())


def async_rows(first: int, count: int) -> list[dict[str, object]]:
    """Draw seed after seed; once half of the rows are held at their bound, further such ones are left out."""
    rows: list[dict[str, object]] = []
    for seed in range(first, first + 10 * count):
        row = said(async_row(seed))
        if not row["is_held_at_bound"] or sum(bool(r["is_held_at_bound"]) for r in rows) < count // 2:
            rows.append(row)
        if len(rows) == count:
            break
    return rows


def said(row: dict[str, object]) -> dict[str, object]:
    """Print a row when it is there, and return it."""
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
    return row


def summary(counts: list[dict[str, object]], asyncs: list[dict[str, object]]) -> dict[str, object]:
    """Return what the issue asks for."""

    def column(rows: list[dict[str, object]], name: str) -> list[float]:
        return [float(str(r[name])) for r in rows]

    def spread(values: list[float]) -> dict[str, float]:
        return {"median": round(statistics.median(values), 4), "worst": round(max(values), 4)}

    both = [*counts, *asyncs]
    return {
        "device_counts": {k: spread(column(counts, k)) for k in ("error", "floor", "no_change", "by_devices")},
        "counts_within_8_percent": f"{sum(e <= 0.08 for e in column(counts, 'error'))} of {len(counts)}",
        "async": {
            k: spread(column(asyncs, k))
            for k in (
                "error",
                "error_same_lengths",
                "lag_error",
                "lag_floor",
                "lag_error_same_lengths",
                "mean_lag_error",
                "mean_lag_floor",
            )
        },
        "lags_within_0.05": f"{sum(e <= 0.05 for e in column(asyncs, 'lag_error'))} of {len(asyncs)}",
        "mean_lags_within_0.15": f"{sum(e <= 0.15 for e in column(asyncs, 'mean_lag_error'))} of {len(asyncs)}",
        "covered_at_80_percent": f"{sum(bool(r['is_covered']) for r in both)} of {len(both)}",
        "not_held_at_bound": sum(not r["is_held_at_bound"] for r in asyncs),
        "sign_of_async_right": f"{sum(r['would_lose'][0] == r['would_lose'][1] for r in asyncs)} of {len(asyncs)}",  # type: ignore[index]
    }


def main() -> int:
    """Draw, run, score, print; `--quick` draws three of each and writes nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    few = 3 if args.quick else None
    counts = [said(count_row(args.seed * 1000 + i)) for i in range(few or NUM_COUNTS)]
    asyncs = async_rows(args.seed * 1000 + 500, few or NUM_ASYNC)
    found = summary(counts, asyncs)
    print(json.dumps(found, indent=2))
    draw = random.Random(args.seed * 1000)
    job = draw_job(draw)
    print(parameter_table(profile(job, base_cluster(job, draw, 16), args.seed * 1000, HEALTHY).parameters.listed))
    if not args.quick:
        made = {"what": WHAT, "seed": args.seed, **found, "counts": counts, "asyncs": asyncs}
        (HERE / "results" / "forecast_virtual.json").write_text(json.dumps(made, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
