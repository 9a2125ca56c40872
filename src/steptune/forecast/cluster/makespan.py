"""The makespan of one batch: every group handed out at once to rested replicas, until the last row has ended."""

from dataclasses import dataclass

from steptune.forecast.cluster.pool import Pool, fresh
from steptune.forecast.cluster.replica import Group
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.work import Work


@dataclass(frozen=True, kw_only=True, slots=True)
class Makespan:
    """One batch: ``Makespan(seconds=41.2, group_done_s=(9.1, 12.7, ..., 41.2), ...)``."""

    seconds: float
    group_done_s: tuple[float, ...]
    """When each group was whole, in the order of the prompts: what streaming and dynamic sampling live on."""
    decode_s: float
    """Mean over replicas, as the three below."""
    prefill_s: float
    env_wait_s: float
    idle_s: float
    """Done, while another replica is not."""
    num_preempted: int
    num_recomputed: int
    """Positions computed again after a preemption."""


def makespan(knobs: RolloutKnobs, costs: RolloutCosts, work: Work, *, step: int = 0) -> Makespan:
    """Make the groups of one step.

    Raises:
        ForecastError: a replica's cache does not hold the longest row.
    """
    done: list[Group] = []
    pool = Pool(knobs, costs, work, on_done=lambda _, group: done.append(group))
    pool.turn = step * work.groups_per_step % knobs.num_replicas
    groups = [fresh(i, shape) for i, shape in enumerate(work.steps[step % len(work.steps)])]
    pool.submit(groups)
    went_on = pool.run(lambda: len(done) == len(groups))
    assert went_on, "a row that never ends"
    seconds = pool.now_s
    spent = pool.spent()
    count = len(spent)
    decode_s, prefill_s = sum(s.decode for s in spent) / count, sum(s.prefill for s in spent) / count
    env_wait_s = sum(s.env_wait for s in spent) / count
    return Makespan(
        seconds=seconds,
        group_done_s=tuple(group.done_s for group in groups),
        decode_s=decode_s,
        prefill_s=prefill_s,
        env_wait_s=env_wait_s,
        idle_s=max(seconds - decode_s - prefill_s - env_wait_s, 0.0),
        num_preempted=sum(replica.num_preempted for replica in pool.replicas),
        num_recomputed=sum(replica.num_recomputed for replica in pool.replicas),
    )
