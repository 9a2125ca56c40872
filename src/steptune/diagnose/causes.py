"""Runs every rule over a paste: those that need only the mean step, and those that need the whole input.

The surprise: the kinds are split over two tables. `RULES` (in `diagnose`) also serves the engine's own profiles;
`PASTE_RULES` needs settings, counts or timers of single engines, which only a paste holds.
"""

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase, SpanKind, parent_phase
from steptune.core.profile import Profile, SummaryLengths
from steptune.diagnose.backward_slow import backward_slow
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.checkpoint_bound import checkpoint_bound
from steptune.diagnose.diagnose import diagnose
from steptune.diagnose.facts import UNKNOWN_NOISE_SHARE_FRAC, cost_s, share_threshold
from steptune.diagnose.idle_engines import idle_engines
from steptune.diagnose.job import Job
from steptune.diagnose.padded_batch import padded_batch
from steptune.diagnose.sample_tail import sample_tail
from steptune.diagnose.sample_waits import sample_waits
from steptune.diagnose.small_decode_batch import small_decode_batch
from steptune.diagnose.timer_gap import rollout_gap
from steptune.diagnose.trainer_side import trainer_side
from steptune.diagnose.validation_bound import validation_bound
from steptune.diagnose.wasted_generation import wasted_generation

PasteRule = Callable[[Job, float | None, float], Cause | None]
"""Job, step time in seconds where known, smallest share worth a name -> the cause, if there."""

PASTE_RULES: dict[BottleneckKind, PasteRule] = {
    BottleneckKind.CHECKPOINT_BOUND: checkpoint_bound,
    BottleneckKind.WASTED_GENERATION: wasted_generation,
    BottleneckKind.BACKWARD_SLOW: backward_slow,
    BottleneckKind.SMALL_DECODE_BATCH: small_decode_batch,
    BottleneckKind.IDLE_ENGINES: idle_engines,
    BottleneckKind.PADDING_WASTE: padded_batch,
    BottleneckKind.ENVIRONMENT_BOUND: sample_waits,
    BottleneckKind.VALIDATION_BOUND: validation_bound,
    BottleneckKind.LONG_TAIL: sample_tail,
    BottleneckKind.TRAINER_BOUND: trainer_side,
}
"""Kinds that only a paste can show, and some that a paste can show where the mean step does not, or better."""

IN_ENGINE = (BottleneckKind.LONG_TAIL, BottleneckKind.SMALL_DECODE_BATCH, BottleneckKind.IDLE_ENGINES)
"""Kinds whose cost is a part of generation."""

MEASURED = (BottleneckKind.LONG_TAIL,)
"""Kinds of which the paste holds a measurement where the mean step allows a reckoning only: it counts alone."""

SIDE_BY_SIDE = "at most, if all answers were decoded side by side from the start"
"""What a tail reckoned from mean and longest answer assumes: with more answers than slots the engine stays full."""

SUBJECTS: dict[BottleneckKind, tuple[str, tuple[Phase, ...]]] = {
    BottleneckKind.ROLLOUT_BOUND: ("generation", (Phase.ROLLOUT,)),
    BottleneckKind.TRAINER_BOUND: ("training", (Phase.TRAIN,)),
    BottleneckKind.LONG_TAIL: ("the tail of long completions", (Phase.ROLLOUT,)),
    BottleneckKind.PADDING_WASTE: ("padding", (Phase.TRAIN,)),
    BottleneckKind.RECOMPUTE_COST: ("recomputing activations", (Phase.TRAIN,)),
    BottleneckKind.SERIALISED_SIDES: ("rollout and training taking turns", (Phase.ROLLOUT, Phase.TRAIN)),
    BottleneckKind.WEIGHT_SYNC_BOUND: ("handing over weights", (Phase.WEIGHT_SYNC,)),
    BottleneckKind.ENVIRONMENT_BOUND: ("environment and reward", (Phase.ENV_WAIT, Phase.REWARD)),
    BottleneckKind.MODE_SWITCH: ("switching between rollout and training", (Phase.MODE_SWITCH,)),
    BottleneckKind.REDUNDANT_LOGPROB: ("the old-log-prob pass", (Phase.OLD_LOGPROB,)),
    BottleneckKind.THREAD_SPLIT: ("the split of threads", (Phase.ROLLOUT, Phase.TRAIN)),
}
"""What a rule over the mean step is about, and the phases whose timers are its evidence."""


def causes(job: Job) -> tuple[Cause, ...]:
    """Return the causes of the step's length, largest share first, one a kind; those without a share come last."""
    profile = job.profile
    step_s = profile.step_time.value if profile is not None else math.nan
    known_s = step_s if math.isfinite(step_s) and step_s > 0 else None
    threshold = share_threshold(profile) if profile is not None else UNKNOWN_NOISE_SHARE_FRAC
    found = [_of_step(profile, b) for b in diagnose(profile, None)] if profile is not None else []
    more = [rule(job, known_s, threshold) for rule in PASTE_RULES.values()]
    measured = {cause.kind for cause in more if cause is not None and cause.kind in MEASURED}
    found = [cause for cause in found if cause.kind not in measured]
    held = [*found, *(cause for cause in more if cause is not None)]
    by_share = sorted(_of_engine(job, held, measured, threshold), key=_share, reverse=True)
    first: dict[BottleneckKind, Cause] = {}
    for cause in by_share:
        first.setdefault(cause.kind, cause)
    return tuple(first.values())


def _of_engine(job: Job, found: Sequence[Cause], measured: Set[BottleneckKind], threshold: float) -> list[Cause]:
    """Causes inside generation can cost no more than their part of what is known to be generation (`timer_gap`)."""
    gap = rollout_gap(job)
    if gap is None:
        return list(found)
    kept: list[Cause] = []
    for cause in found:
        if cause.kind in IN_ENGINE and cause.cost_s is not None and cause.step_s is not None:
            cost_s = cause.cost_s if cause.kind in measured else cause.cost_s * gap.known_frac
            if is_worth_a_name(cost_s, cause.step_s, threshold):
                kept.append(replace(cause, cost_s=cost_s))
        else:
            kept.append(cause)
    return kept


def _share(cause: Cause) -> float:
    return -1.0 if cause.cost_s is None or cause.step_s is None else cause.cost_s / cause.step_s


def _of_step(profile: Profile, bottleneck: Bottleneck) -> Cause:
    subject, phases = SUBJECTS[bottleneck.kind]
    if bottleneck.kind is BottleneckKind.ENVIRONMENT_BOUND:
        subject = _environment(profile)
    if bottleneck.kind is BottleneckKind.ROLLOUT_BOUND and profile.schedule == "async":
        subject = "waiting for samples"
    step_s = profile.step_time.value
    is_bound = bottleneck.kind is BottleneckKind.LONG_TAIL and isinstance(profile.lengths, SummaryLengths)
    return Cause(
        kind=bottleneck.kind,
        is_bound=is_bound,
        subject=subject,
        text=bottleneck.evidence,
        facts=_timers(profile, phases),
        cost_s=bottleneck.share.value * step_s,
        step_s=step_s,
        note=SIDE_BY_SIDE if is_bound else bottleneck.ceiling.note,
        levers=bottleneck.levers,
    )


def _environment(profile: Profile) -> str:
    """Which of the two holds the step up."""
    env_s, reward_s = cost_s(profile, Phase.ENV_WAIT), cost_s(profile, Phase.REWARD)
    return (
        "the reward (no GPU setting acts on it)"
        if reward_s > env_s
        else "waiting for the environment (no GPU setting acts on it)"
    )


def _timers(profile: Profile, phases: tuple[Phase, ...]) -> tuple[Evidence, ...]:
    """The timers of these phases, each key once, work before waiting."""
    spans = [p for role in profile.roles for p in role.phases if parent_phase(p.phase) in phases]
    facts: dict[str, Evidence] = {}
    for span in sorted(spans, key=lambda p: p.kind is SpanKind.EXPOSED_WAIT):
        if span.origin is not None:
            verb = "waits" if span.kind is SpanKind.EXPOSED_WAIT else "works"
            text = f"{span.origin.key} {span.seconds.value:.6g} s ({span.role.value} {verb})"
            facts.setdefault(span.origin.key, Evidence(text=text, origin=span.origin))
    return tuple(facts.values())
