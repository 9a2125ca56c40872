"""What a virtual cluster is made of. Plain facts: devices, links, memory, rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from steptune.core.errors import JobError, explain
from steptune.engine.routing import Rule

Schedule = Literal["sync", "one_step_off", "async"]
OverBudget = Literal["preempt", "reserve"]
Consume = Literal["in_order", "first_done"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSpec:
    """One configuration of one cluster.

    Example: 16 devices, 4 of them train, one batch ahead: ``ClusterSpec(num_trainers=4, num_replicas=12,
    schedule="one_step_off")``.
    """

    num_trainers: int
    """Data-parallel ranks, one device each."""
    num_replicas: int
    """Rollout replicas, one device each."""
    is_colocated: bool = False
    """Both sides take turns on the same devices; only where they never overlap (`sync`)."""
    schedule: Schedule = "sync"
    max_lag: int = 0
    """`async`: largest age of a trained token, in updates."""
    consume: Consume = "in_order"
    """`async`: train on the groups of step k at step k, or on whichever are done; those too old are dropped."""
    routing: Rule = "round_robin"
    """Which replica gets a group; a group is never split."""
    max_rows: int | None = None
    """Rows decoding at once in a replica; None is no limit."""
    kv_tokens: int | None = None
    """Tokens a replica's cache holds; None is no limit."""
    over_budget: OverBudget = "preempt"
    """A full cache: throw out the newest row, to be computed again later, or never admit what might not fit."""
    share_prefill: bool = True
    """A group's prompt is computed once."""
    micro_batch_tokens: int = 4096
    balance: Literal["rows", "tokens"] = "rows"
    """Ranks get equally many rows, or rows of about equal tokens."""
    sync_s: float = 0.0
    """Seconds both sides stand still while new weights travel; see `transfer_s`."""
    allreduce_s: float = 0.0
    """Seconds of one gradient all-reduce over the ranks; see `ring_s`."""
    num_tool_workers: int = 1
    """Environment workers: tool calls beyond that many wait."""
    replica_slowdown: tuple[float, ...] = ()
    """Seconds of each replica over a healthy one's; missing ones are healthy."""
    trainer_slowdown: tuple[float, ...] = ()

    @property
    def num_devices(self) -> int:
        """Devices held."""
        if self.is_colocated:
            return max(self.num_trainers, self.num_replicas)
        return self.num_trainers + self.num_replicas

    def check(self, longest_row: int) -> None:
        """Refuse what cannot be; ``longest_row`` is the tokens of the longest row possible, prompt included.

        Raises:
            JobError: no device, overlap on shared devices, a lag without `async`, or a cache too small for one row.
        """
        wrong = _reasons(self)
        if self.kv_tokens is not None and self.kv_tokens < longest_row:
            wrong.append(f"kv_tokens {self.kv_tokens} for a row of up to {longest_row}")
        if wrong:
            raise JobError(
                explain(
                    "this virtual cluster cannot run",
                    got=wrong[0],
                    allowed="positive counts and factors, overlap on devices of its own, `max_lag` with async",
                    hint="a cache must hold the longest prompt and completion, and shared devices need `sync`",
                )
            )


def transfer_s(num_bytes: float, bytes_per_s: float) -> float:
    """Return the seconds that weights need to one replica, all replicas served at once."""
    return num_bytes / bytes_per_s


def ring_s(num_bytes: float, num_ranks: int, bytes_per_s: float) -> float:
    """Return the seconds of a ring all-reduce: every rank sends 2 (n-1)/n of the bytes (Patarasuk and Yuan 2009)."""
    return 2 * (num_ranks - 1) / num_ranks * num_bytes / bytes_per_s


def slowdown_of(factors: Sequence[float], index: int) -> float:
    """Return the factor of one device; those not named are healthy."""
    return factors[index] if index < len(factors) else 1.0


def _reasons(spec: ClusterSpec) -> list[str]:
    positive = {
        "num_trainers": spec.num_trainers,
        "num_replicas": spec.num_replicas,
        "num_tool_workers": spec.num_tool_workers,
        "max_rows": spec.max_rows,
        "kv_tokens": spec.kv_tokens,
        **{f"slow-down {i}": f for i, f in enumerate((*spec.replica_slowdown, *spec.trainer_slowdown))},
    }
    wrong = [f"{name} {value}" for name, value in positive.items() if value is not None and not value > 0]
    if spec.is_colocated and spec.schedule != "sync":
        wrong.append(f"schedule {spec.schedule} on shared devices")
    if spec.schedule != "async" and (spec.max_lag or spec.consume != "in_order"):
        wrong.append(f"schedule {spec.schedule} with max_lag {spec.max_lag} and consume {spec.consume}")
    if spec.max_lag < 0 or not (spec.sync_s >= 0 and spec.allreduce_s >= 0):
        wrong.append("a negative lag or duration")
    return wrong
