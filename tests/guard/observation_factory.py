"""Builds believable observations of a small dense job; a test changes only what it is about."""

from collections.abc import Sequence
from typing import Any

from steptune.core.profile import GapStats, LagStats
from steptune.core.trial import Observation, QueueCount, QueueStats


def gap(
    k3: float = 1e-5,
    *,
    k1: float = 0.0,
    mult_prob_error: float = 1.002,
    ess_frac: float = 0.99,
    max_abs: float = 0.03,
    num_tokens: int = 4000,
) -> GapStats:
    return GapStats(
        k1=k1,
        k3=k3,
        mean_abs=0.002,
        max_abs=max_abs,
        mult_prob_error=mult_prob_error,
        ess_frac=ess_frac,
        num_tokens=num_tokens,
    )


def step(number: int = 0, **changed: Any) -> Observation:
    fields: dict[str, Any] = {
        "step": number,
        "step_time_s": 1.0,
        "wall_by_role_s": {"trainer": 1.0, "rollout": 1.0},
        "spans": (),
        "prompt_tokens": 3000,
        "completion_tokens": 4000,
        "padded_tokens": 9000,
        "decode_iterations": 40,
        "num_rollouts": 256,
        "completion_len_p50": 15.0,
        "completion_len_max": 40,
        "truncated_frac": 0.02,
        "reward_mean": 0.4,
        "mixed_groups_frac": 0.6,
        "entropy": 0.5,
        "grad_norm": 0.3,
        "loss": 0.01,
        "mismatch": gap(),
        "lag_max": 0,
        "memory_peak_bytes": 600 * 2**20,
        "weight_version": number + 1,
    }
    return Observation(**{**fields, **changed})


def steps(count: int = 8, **changed: Any) -> list[Observation]:
    return [step(number, **changed) for number in range(count)]


def steps_with(field: str, values: Sequence[Any]) -> list[Observation]:
    """One step per value of one field."""
    return [step(number, **{field: value}) for number, value in enumerate(values)]


def steps_with_k3(k3s: Sequence[float]) -> list[Observation]:
    return steps_with("mismatch", [gap(k3) for k3 in k3s])


def stale_steps(count: int = 8, *, lag: int = 1, stats: GapStats | None = None) -> list[Observation]:
    """Steps whose oldest tokens are ``lag`` updates old, with a healthy gap unless ``stats`` says otherwise."""
    by_lag = LagStats(lag=lag, gap=stats or gap(2e-3, k1=1e-3, ess_frac=0.95))
    return steps(count, lag_max=lag, off_policy=(by_lag,))


def queued(count: int = 8, *, age: float = 1.0) -> list[Observation]:
    """Steps of a stream that is well under way: always 4 groups of 10 tokens wait."""
    return [
        step(
            10 + i,
            lag_max=1,
            queue=QueueStats(groups=_count(4 * (10 + i), 4), tokens=_count(40 * (10 + i), 40), lag_mean=age),
        )
        for i in range(count)
    ]


def _count(trained: int, buffered: int) -> QueueCount:
    return QueueCount(generated=trained + buffered, trained=trained, dropped=0, buffered=buffered)
