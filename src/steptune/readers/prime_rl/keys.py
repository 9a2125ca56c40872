"""prime-rl's metrics by canonical name.

Trainer and orchestrator number the same steps and both print `Time`, so a key says whose it is. Their `metrics.jsonl`
spell the same quantities `time/step`, `perf/mfu` and so on. The mismatch is k3: ratio - log ratio - 1 (prime-rl
559b447, trainer/rl/loss.py). The console's throughput is that of all devices together; MFU is a percentage.
"""

from collections.abc import Mapping

from steptune.readers.reading import Gauge

TRAINER = "trainer "
ORCHESTRATOR = "orchestrator "
TRAINER_STEP_KEY = TRAINER + "Time"
ORCHESTRATOR_STEP_KEY = ORCHESTRATOR + "Time"
FILE_STEP_KEY = "time/step"
MFU_KEY = "perf/mfu"
ZERO_ADVANTAGE_KEY = "zero_advantage / rollouts"
"""Share of rollouts in groups whose rewards are all equal."""

THROUGHPUT_KEY = TRAINER + "Throughput"

_PERCENT = 0.01

SERIES: Mapping[str, Gauge] = {
    TRAINER_STEP_KEY: Gauge(name="step_time"),
    ORCHESTRATOR_STEP_KEY: Gauge(name="step_time"),
    FILE_STEP_KEY: Gauge(name="step_time"),
    "Reward": Gauge(name="reward"),
    "reward/all/mean": Gauge(name="reward"),
    "reward/mean": Gauge(name="reward"),
    ZERO_ADVANTAGE_KEY: Gauge(name="zero_std_frac", is_derived=True),
    "Entropy": Gauge(name="entropy"),
    "entropy/all/mean": Gauge(name="entropy"),
    "Truncation": Gauge(name="clipped_frac", scale=_PERCENT),
    "perf/throughput_per_gpu": Gauge(name="tokens_per_device_s"),
    "MFU": Gauge(name="mfu", scale=_PERCENT),
    MFU_KEY: Gauge(name="mfu", scale=_PERCENT),
    "Grad. Norm": Gauge(name="grad_norm"),
    "optim/grad_norm": Gauge(name="grad_norm"),
    "Loss": Gauge(name="loss"),
    "loss/mean": Gauge(name="loss"),
    "Mismatch KL": Gauge(name="mismatch_k3"),
    "mismatch_kl/all/mean": Gauge(name="mismatch_k3"),
    "Async Level": Gauge(name="async_level"),
    "off_policy/mean": Gauge(name="staleness_mean"),
    "off_policy/dropped": Gauge(name="evicted"),
    "progress/tokens": Gauge(name="tokens"),
    "Peak Mem.": Gauge(name="memory_reserved_gib"),
    "perf/peak_memory": Gauge(name="memory_reserved_gib"),
    "LR": Gauge(name="lr"),
    "optim/lr": Gauge(name="lr"),
}
