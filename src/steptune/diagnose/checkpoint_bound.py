"""Saving takes a large part of the run, although no single step looks slow.

The surprise: a save of hours stands in one step of many, so a mean over steps that hold no save hides it. The cost
per step is the seconds of all saves over all steps seen, or one save over the interval that the configuration asks for.
"""

import statistics

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.paste import Series
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, cost_bottleneck
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, origin_of, setting_text

SAVE_KEYS = (
    "save_checkpoint",
    "timing_s/save_checkpoint",
    "timing/save_checkpoints",
    "timing/save_checkpoint",
    "timing/train/checkpointing",
    "checkpointing",
    "time/save_ckpt",
    "timeperf/save",
)
"""Timers of one save, as the frameworks spell them."""


def checkpoint_bound(job: Job, step_s: float, threshold: float) -> Cause | None:
    """Find the cost of saving, spread over the steps between two saves."""
    saves = saving_series(job)
    if saves is not None:
        per_step_s, how = _amortised(job, saves)
        evidence = (Evidence(text=how, origin=origin_of(saves)),)
    else:
        per_step_s = cost_s(job.profile, Phase.CHECKPOINT) if job.profile else 0.0
        evidence = ()
    # a save outside the step's clock lengthens the run all the same: the step is then longer than its timer
    whole_s = step_s if job.profile and cost_s(job.profile, Phase.CHECKPOINT) > 0 else step_s + per_step_s
    if not per_step_s >= threshold * whole_s:
        return None
    text = f"saving takes {said(per_step_s)} of {said(whole_s)} per step"
    bottleneck = cost_bottleneck(
        BottleneckKind.CHECKPOINT_BOUND, step_s=whole_s, cost_s=per_step_s, evidence=text, note="spread over all steps"
    )
    return Cause(bottleneck=bottleneck, title="Saving checkpoints", evidence=evidence)


def saving_series(job: Job) -> Series | None:
    """Return the timer of saves that ran at least once."""
    series = job.series(*SAVE_KEYS)
    return series if series is not None and max(series.finite()) > 0 else None


def _amortised(job: Job, saves: Series) -> tuple[float, str]:
    seconds = [s for s in saves.finite() if s > 0]
    one_s, every = statistics.median(seconds), job.positive("save_every")
    setting = job.declared("save_every")
    if every is not None and setting is not None and job.paste.num_steps_seen < every:
        return one_s / every, f"one save takes {said(one_s)}, every {every:g} steps ({setting_text(setting)})"
    num_steps = max(job.paste.num_steps_seen, len(saves.points), 1)
    return sum(seconds) / num_steps, f"{len(seconds)} saves of {said(one_s)} in {num_steps} steps"
