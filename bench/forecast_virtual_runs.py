"""What `forecast_virtual` runs: one configuration, logged and calibrated on, and the truth of another.

The profile is of the first steps of a job, as many as are asked for; a longer one begins with the same steps. The
truth is of later steps: other prompts of the same distribution. The surprise: a straggler is *not* in the log as such;
it is found in busy seconds, as a device monitor shows them.
"""

import random
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from forecast_virtual_jobs import SPAN_NOISE, Jittered, Job, Logged, draw_work, truth_work
from steptune.core.phase import Role
from steptune.engine.virtual.cluster import simulate
from steptune.engine.virtual.outcome import VirtualRun
from steptune.engine.virtual.spec import ClusterSpec, ring_s
from steptune.forecast.cluster.calibrate import MicroBatch, StepTrace, calibrate, mean_log_sd, slowdowns
from steptune.forecast.cluster.decode import DrainPoint
from steptune.forecast.cluster.lengths import sampled_log_sd
from steptune.forecast.cluster.pool import Pool, fresh
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.work import Work, extended

PROFILED_STEPS = 8
"""Steps of a short profile."""
TRUTH_STEPS, TRUTH_WARMUP = 24, 2
"""Steps of a schedule without a queue that count, and that do not."""
ASYNC_STEPS, ASYNC_WARMUP = 56, 10
"""The same with a queue: near balance the mean lag wanders for tens of steps."""
RESHUFFLED_STEPS = 32
"""Steps of the profile's groups that a forecast averages over, in other company and on other replicas."""


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


def profile(job: Job, cluster: Cluster, seed: int, slow: Slow, num_steps: int = PROFILED_STEPS) -> Sides:
    """Run one configuration for so many steps, log it, calibrate on the log."""
    work = draw_work(job, num_steps, seed)
    logged = Logged(costs=Jittered(job=job, draw=random.Random(seed + 2)), noise=random.Random(seed + 1))
    run = simulate(spec_of(job, cluster, slow=slow), truth_work(work), logged, num_steps=num_steps)
    trace = StepTrace(
        drain=tuple(DrainPoint(running=n, cached_tokens=0, seconds=s) for n, s in logged.decode),
        prefills=tuple(logged.prefill),
        micro_batches=tuple(MicroBatch(positions=n, squared=0, seconds=s) for n, s in logged.train),
        num_ranks=cluster.train.num_ranks,
        update_s=statistics.fmean(logged.updates),
        update_log_sd=mean_log_sd(logged.updates),
        reduce_s=ring_s(job.reduce_bytes, cluster.train.num_ranks, 1.0) * logged.noise.lognormvariate(0, SPAN_NOISE),
        sync_s=job.sync_s * logged.noise.lognormvariate(0, SPAN_NOISE),
    )
    groups = [group for step in work.steps for group in step]
    work = replace(work, length_log_sd=sampled_log_sd(groups), num_logged_groups=len(groups))
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
