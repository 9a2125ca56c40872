"""One step's tensors and spans become one Observation."""

from collections.abc import Sequence

from steptune.core.trial import Observation, SpanTime
from steptune.engine.events import Span
from steptune.engine.supply.source import Supply
from steptune.engine.trainer import TrainStats
from steptune.engine.types import ScoredBatch


def observation(
    *,
    step: int,
    seconds: float,
    wall_by_role_s: dict[str, float],
    spans: Sequence[Span],
    supply: Supply,
    scored: ScoredBatch,
    stats: TrainStats,
    version: int,
    memory_bytes: int | None,
    is_cache_mixed: bool,
) -> Observation:
    """Return the record of a step.

    The gap at equal weights is the training forward's where data is fresh, the hand-over probe's where it is
    not; neither is ever made up. ``is_cache_mixed``: rows go on over the cache of older weights, so that even a token
    of the newest weights was not sampled by them alone, and only the probe can tell.
    """
    produced, batch = supply.produced, supply.produced.batch
    lengths = batch.lengths_B
    fresh = next((lag.gap for lag in stats.gap_by_lag if lag.lag == 0 and not is_cache_mixed), None)
    return Observation(
        step=step,
        step_time_s=seconds,
        wall_by_role_s=wall_by_role_s,
        spans=sum_spans(spans, supply),
        prompt_tokens=int(batch.prompts.lengths_B.sum()),
        completion_tokens=int(lengths.sum()),
        padded_tokens=stats.padded_tokens,
        decode_iterations=sum(trace.decode_iterations for trace in produced.traces),
        num_rollouts=len(lengths),
        completion_len_p50=float(lengths.float().median()),
        completion_len_max=int(lengths.max()),
        truncated_frac=1.0 - float(batch.finished_B.float().mean()),
        reward_mean=float(produced.raw_reward_B.mean()),
        mixed_groups_frac=produced.mixed_groups_frac,
        entropy=batch.entropy,
        grad_norm=stats.grad_norm,
        loss=stats.loss,
        mismatch=fresh or supply.probe_gap,
        off_policy=tuple(lag for lag in stats.gap_by_lag if lag.lag > 0),
        lag_max=max((lag.lag for lag in stats.gap_by_lag), default=0),
        memory_peak_bytes=memory_bytes,
        weight_version=version,
        queue=supply.queue,
        zero_advantage_frac=float((scored.advantage_B == 0).float().mean()),
        arrivals=supply.arrivals,
        router_agreement_frac=stats.router_agreement_frac,
        num_compiled=stats.num_compiled,
    )


def sum_spans(own: Sequence[Span], supply: Supply) -> tuple[SpanTime, ...]:
    """Return seconds per (role, phase, kind), in a fixed order; of several processes side by side their mean."""
    totals: dict[tuple[str, str, str], float] = {}
    for spans, num_processes in ((own, 1), (supply.spans, supply.num_remote)):
        for span in spans:
            key = (span.role, span.phase, span.kind)
            totals[key] = totals.get(key, 0.0) + span.seconds / num_processes
    return tuple(
        SpanTime(role=role, phase=phase, kind=kind, seconds=seconds)
        for (role, phase, kind), seconds in sorted(totals.items())
    )
