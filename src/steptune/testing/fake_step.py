"""A healthy step of the fake framework, and a gap of any size."""

import math

from steptune.core.profile import GapStats, LagStats
from steptune.core.trial import Observation, SpanTime
from steptune.testing.arrivals import whole_arrival

HEALTHY_K3 = 1e-6
"""k3 of an untouched fake run, in nats."""

STALE_K3 = 1e-4
"""k3 of a fake run against weights one update older, in nats."""

PEAK_BYTES = 10**8
"""Peak memory of a fake run whose knobs need none of their own."""


def fake_observation(step: int, rollout_s: float, train_s: float, is_off: bool) -> Observation:
    """Return a healthy step."""
    seconds = max(rollout_s, train_s) if is_off else rollout_s + train_s
    return Observation(
        step=step,
        step_time_s=seconds,
        wall_by_role_s={"trainer": seconds, "rollout": seconds},
        spans=(
            SpanTime(role="rollout", phase="rollout", kind="busy", seconds=rollout_s),
            SpanTime(role="rollout", phase="train", kind="exposed_wait", seconds=seconds - rollout_s),
            SpanTime(role="trainer", phase="rollout", kind="exposed_wait", seconds=seconds - train_s),
            SpanTime(role="trainer", phase="train", kind="busy", seconds=train_s),
        ),
        prompt_tokens=32,
        completion_tokens=40,
        padded_tokens=100,
        decode_iterations=16,
        num_rollouts=4,
        completion_len_p50=10,
        completion_len_max=16,
        truncated_frac=0.01,
        reward_mean=0.5,
        mixed_groups_frac=0.6,
        entropy=1.0,
        grad_norm=1.0,
        loss=0.1,
        mismatch=fake_gap(HEALTHY_K3),
        off_policy=(LagStats(lag=1, gap=fake_gap(STALE_K3)),) if is_off else (),
        lag_max=int(is_off),
        memory_peak_bytes=PEAK_BYTES,
        weight_version=step + 1,
        arrivals=(whole_arrival(step),),
    )


def fake_gap(k3: float, *, num_tokens: int = 40) -> GapStats:
    """Return a gap of that k3."""
    spread = math.sqrt(2 * k3)
    return GapStats(
        k1=0.0,
        k3=k3,
        mean_abs=spread,
        max_abs=4 * spread,
        mult_prob_error=math.exp(spread),
        ess_frac=1 / (1 + spread**2),
        num_tokens=num_tokens,
    )
