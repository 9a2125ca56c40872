"""Engines stand idle during generation: the slowest keeps the others waiting, or requests are too few or too slow.

With prompts dealt out beforehand every engine has its own end; the step waits for the last. The mean over engines
divided by the slowest says how much of the pool works (0.49 in one public log: half of it idle).
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, mean_of, num_engines, origin_of, samples_per_step, setting_text
from steptune.diagnose.starved_engines import starved_engines

MEAN_KEYS = ("timing_s/generate_sequences", "timing_s/generation_timing/mean")
"""Generate seconds, mean over engines."""

MAX_KEYS = ("timing_s/generation_timing/max", "timing_s/generate_sequences/max")
"""Generate seconds of the slowest engine."""

MIN_IDLE_FRAC = 0.15
"""Part of the pool that must stand idle on average: even loads spread by some percent. Prior."""


def idle_engines(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find generation time in which part of the engines has nothing to do."""
    idle_frac, text, facts = _uneven(job) or _too_few(job) or starved_engines(job) or (0.0, "", ())
    if job.profile is None or step_s is None or idle_frac < MIN_IDLE_FRAC:
        return None
    idle_s = idle_frac * cost_s(job.profile, Phase.ROLLOUT)
    if not is_worth_a_name(idle_s, step_s, threshold):
        return None
    return Cause(
        kind=BottleneckKind.IDLE_ENGINES,
        subject="idle generation engines",
        text=text,
        facts=facts,
        cost_s=idle_s,
        step_s=step_s,
        note="as if all engines worked to the end",
    )


def _uneven(job: Job) -> tuple[float, str, tuple[Evidence, ...]] | None:
    mean, slowest = job.series(*MEAN_KEYS), job.series(*MAX_KEYS)
    if mean is None or slowest is None or not 0 < mean_of(mean) <= mean_of(slowest):
        return None
    idle_frac = 1 - mean_of(mean) / mean_of(slowest)
    text = f"the slowest engine generates for {said(mean_of(slowest))}, the mean engine for {said(mean_of(mean))}"
    facts = tuple(Evidence(text=f"{s.key} {mean_of(s):.4g} s", origin=origin_of(s)) for s in (mean, slowest))
    return idle_frac, f"{text}: {idle_frac:.0%} of the pool stands idle", facts


def _too_few(job: Job) -> tuple[float, str, tuple[Evidence, ...]] | None:
    samples, engines = samples_per_step(job), num_engines(job)
    if samples is None or engines is None or not 1 <= samples < engines:
        return None
    text = f"{engines:g} engines for {samples:g} sequences: {engines - samples:g} have none"
    declared = [
        job.declared(concept) for concept in ("num_engines", "samples_per_step", "prompts_per_step", "group_size")
    ]
    facts = [Evidence(text=setting_text(setting), origin=setting.origin) for setting in declared if setting is not None]
    return 1 - samples / engines, text, tuple(facts or [_generation(job)])


def _generation(job: Job) -> Evidence:
    """The timer of what the engines stand idle in, where their number and that of the sequences come from the log."""
    spans = [p for role in job.profile.roles for p in role.phases] if job.profile else []
    origin = next((p.origin for p in spans if p.phase == Phase.ROLLOUT.value and p.origin is not None), None)
    return Evidence(text="the number of engines and of sequences as the log counts them", origin=origin)
