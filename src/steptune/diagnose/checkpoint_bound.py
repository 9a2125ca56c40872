"""Saving takes a large part of the run, although no single step looks slow.

The surprise: a save of hours stands in one step of many, so a mean over steps that hold no save hides it. The cost
per step is the seconds of all saves over all steps seen, or one save over the interval that the configuration asks for.
"""

import statistics

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.paste import Series
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, is_worth_a_name
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
    "save_checkpoints",
    "time/save_ckpt",
    "timeperf/save",
)
"""Timers of one save, as the frameworks spell them."""

LONG_SAVE_S = 600.0
"""One save that is long whatever the step: ten minutes in which no device trains. Prior."""


def checkpoint_bound(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find the cost of saving, spread over the steps between two saves."""
    saves = job.series(*SAVE_KEYS)
    seconds = [s for s in saves.finite() if s > 0] if saves is not None else []
    if saves is None or not seconds:
        return None
    one_s = statistics.median(seconds)
    fact = Evidence(text=f"{saves.key} {one_s:.6g} s a save", origin=origin_of(saves))
    if step_s is None:
        if one_s < LONG_SAVE_S:
            return None
        text = (
            f"one save takes {said(one_s)} ({one_s:.0f} s); its share needs the step time and the steps between saves"
        )
        return Cause(kind=BottleneckKind.CHECKPOINT_BOUND, subject="saving checkpoints", text=text, facts=(fact,))
    per_step_s, how = _amortised(job, saves, seconds)
    # a save outside the step's clock lengthens the run all the same: the step is then longer than its timer
    is_inside = job.profile is not None and cost_s(job.profile, Phase.CHECKPOINT) > 0
    whole_s = step_s if is_inside else step_s + per_step_s
    if not is_worth_a_name(per_step_s, whole_s, threshold):
        return None
    return Cause(
        kind=BottleneckKind.CHECKPOINT_BOUND,
        subject="saving checkpoints",
        text=f"{how}: {said(per_step_s)} of {said(whole_s)} per step",
        facts=(fact,),
        cost_s=per_step_s,
        step_s=whole_s,
        note="saves spread over all steps",
    )


def _amortised(job: Job, saves: Series, seconds: list[float]) -> tuple[float, str]:
    one_s, every = statistics.median(seconds), job.positive("save_every")
    setting = job.declared("save_every")
    if every is not None and setting is not None and job.paste.num_steps_seen < every:
        return one_s / every, f"one save takes {said(one_s)}, every {every:g} steps ({setting_text(setting)})"
    num_steps = max(job.paste.num_steps_seen, len(saves.points), 1)
    return sum(seconds) / num_steps, f"{len(seconds)} saves of {said(one_s)} in {num_steps} steps"
