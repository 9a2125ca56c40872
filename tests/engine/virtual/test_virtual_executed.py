"""An executed cluster does the work of the plain loop, and lays it out on its devices."""

import itertools
import sys
from pathlib import Path

import pytest

from steptune.core.errors import JobError
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.produce import TOKENIZER
from steptune.engine.virtual.executed import ExecutedCluster
from steptune.engine.virtual.measure import measure_costs, weight_bytes
from steptune.engine.virtual.spec import ClusterSpec

sys.path.insert(0, str(Path(__file__).parents[1]))
from loop_cases import small_job, small_loop

KNOBS = {"layout": "packed", "micro_batch_tokens": 64, "share_prefill": True, "compact_finished": True}

JOB = small_job(lr=1e-2, overlong_buffer_len=11)
"""Random weights solve nothing; the punishment makes rewards differ, so that weights move."""

FORCED = SampledLengths(prompt=(5,) * 16, completion=(1,) * 8 + (12,) * 8, rollouts_per_step=16)


def cluster(spec: ClusterSpec, forced: SampledLengths | None = None, tick_s: float | None = None) -> ExecutedCluster:
    """A small cluster from the loop's own start; with ``tick_s`` every look at the clock costs that long."""
    model = build_model(JOB.model, TOKENIZER.vocab_size, seed=1)
    knobs = EngineKnobs.model_validate(KNOBS)
    if tick_s is None:
        return ExecutedCluster(spec, JOB, knobs, model, seed=1, forced=forced)
    ticks = itertools.count()
    return ExecutedCluster(spec, JOB, knobs, model, seed=1, forced=forced, clock=lambda: tick_s * next(ticks))


@pytest.mark.parametrize("schedule", ["sync", "one_step_off"])
def test_losses_and_lags_are_the_loops_however_many_devices_share_the_work(tmp_path: Path, schedule: str) -> None:
    loop = small_loop(JOB, tmp_path, schedule=schedule, **KNOBS)
    expected = [loop.step() for _ in range(3)]
    loop.close()
    split = cluster(ClusterSpec(num_trainers=3, num_replicas=3, schedule=schedule))  # type: ignore[arg-type]
    made = [split.step() for _ in range(3)]
    assert [step.loss for step in made] == pytest.approx([step.loss for step in expected], rel=1e-3, abs=1e-6)
    assert [step.lag for step in made] == [step.lag_max for step in expected]


def test_the_slowest_device_counts_and_every_device_has_its_part() -> None:
    spec = ClusterSpec(num_trainers=2, num_replicas=2, sync_s=7.0, allreduce_s=3.0, replica_slowdown=(1.0, 5.0))
    step = cluster(spec, FORCED, tick_s=1.0).step()
    # a replica's rollout is one look at the clock before and one after
    assert step.replica_cpu_s == (1.0, 5.0)
    slowest = max(step.rank_cpu_s)
    assert step.virtual_s == pytest.approx(5.0 + slowest + 3.0 + step.optimizer_cpu_s + 7.0)
    assert all(seconds > 0 for seconds in step.rank_cpu_s)


def test_an_overlapped_executed_step_is_the_larger_side() -> None:
    spec = ClusterSpec(num_trainers=1, num_replicas=1, schedule="one_step_off", replica_slowdown=(1000.0,))
    assert cluster(spec, FORCED, tick_s=1.0).step().virtual_s == 1000.0


def test_longest_first_separates_the_long_groups() -> None:
    spec = ClusterSpec(num_trainers=1, num_replicas=2, routing="longest_first")
    pool = cluster(spec, FORCED).pool
    # groups of 4: two of length 1 and two of length 12
    assert sorted(map(sorted, pool._shares(0))) == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    "spec",
    [
        ClusterSpec(num_trainers=1, num_replicas=1, schedule="async"),
        ClusterSpec(num_trainers=1, num_replicas=1, max_rows=4),
    ],
)
def test_what_needs_the_event_core_is_refused(spec: ClusterSpec) -> None:
    with pytest.raises(JobError, match="simulate"):
        cluster(spec)


def test_measured_prices_grow_with_size_and_come_from_the_given_clock() -> None:
    ticks = itertools.count()
    knobs = EngineKnobs.model_validate(KNOBS)
    costs = measure_costs(JOB, knobs, row_counts=(1, 4), clock=lambda: float(next(ticks)))
    assert [x for x, _ in costs.decode] == [1, 4]
    assert all(seconds > 0 for points in (costs.decode, costs.prefill, costs.train) for _, seconds in points)
    assert costs.optimizer_s() > 0
    assert [x for x, _ in costs.train] == sorted({x for x, _ in costs.train})
    assert weight_bytes(JOB) > 4 * 1000
