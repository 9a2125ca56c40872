"""Thresholds that a guard holds a candidate against and a trip-wire holds the running job against.

They are not the owner's limits (those are in `job.LimitsSpec`): they are where public practice stops
trusting a run. One place, so that a run which passes today is not tripped tomorrow by another number.
"""

MIN_ESS_FRAC = 0.3
"""Smallest healthy effective sample size of importance weights, 0..1 (verl docs/algo/rollout_corr.md)."""

MAX_ABS_K1 = 0.1
"""Largest healthy |k1| in nats per token (verl docs/algo/rollout_corr.md, "abs(KL) <= 0.1")."""

MEAN_WEIGHT_RANGE = (0.5, 2.0)
"""Healthy mean importance weight (verl docs/algo/rollout_corr.md)."""

MAX_TRUNCATION_RISE = 0.05
"""Largest acceptable rise of the truncated fraction, absolute (AReaL algo_perf.md: `no_eos_ratio` <= 0.05)."""
