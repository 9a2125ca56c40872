"""Too few sequences are in flight to fill an engine: every decode iteration costs the same, full or not.

Decoding reads all weights once an iteration. Below the rows at which arithmetic takes as long as that read
(peak FLOP/s over bytes/s, some hundreds of rows in bf16) more rows are nearly free, so few rows waste the device.
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, num_devices, num_engines, samples_per_step, setting_text
from steptune.diagnose.rollout_bound import BOUND_FRAC
from steptune.hardware.devices import find_device

MIN_ROWS_PER_ENGINE = 32.0
"""Rows an engine needs before its decode time is worth calling throughput; a tenth of the 150-300 rows at which
A100 and H100 turn compute-bound in bf16. Prior."""


def small_decode_batch(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find a step bound by generation whose engines hold few sequences even if all of them run at once."""
    samples, engines = samples_per_step(job), num_engines(job) or _one_device(job)
    if job.profile is None or step_s is None or samples is None or job.profile.schedule == "async":
        return None
    rollout_s = cost_s(job.profile, Phase.ROLLOUT)
    # with the engines unknown there is at least one
    rows = samples / (engines or 1.0)
    if not rows < MIN_ROWS_PER_ENGINE or not rollout_s >= max(threshold, BOUND_FRAC) * step_s:
        return None
    spread = f"in {engines:g} engines" if engines and engines > 1 else "in flight"
    settings = [job.declared("prompts_per_step"), job.declared("group_size"), job.declared("rollout_tp")]
    return Cause(
        kind=BottleneckKind.SMALL_DECODE_BATCH,
        subject="decoding with too few sequences in flight",
        text=f"{samples:g} sequences {spread}: at most {rows:g} rows an engine{_ridge(job)}",
        facts=tuple(Evidence(text=setting_text(s), origin=s.origin) for s in settings if s is not None),
        cost_s=rollout_s,
        step_s=step_s,
        note="all of generation; more rows at once cost almost nothing, fewer iterations do not exist",
    )


def _one_device(job: Job) -> float | None:
    return 1.0 if num_devices(job) == 1 else None


def _ridge(job: Job) -> str:
    name = job.paste.devices.name if job.paste.devices else None
    device = find_device(name) if name else None
    if device is None or device.ridge_rows is None:
        return ""
    return f"; a {device.name} turns compute-bound at about {device.ridge_rows:.0f}"
