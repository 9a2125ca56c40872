"""First stage of a session: profile the baseline, refuse what cannot be tuned, name the bottlenecks."""

import math
import os
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from steptune.core.change import Change
from steptune.core.errors import HealthError, LimitError, explain
from steptune.core.estimate import Estimate
from steptune.core.event import Diagnosed, Profiled
from steptune.core.framework import Launches, LaunchSpec, Session
from steptune.core.knob import Effect, Restart
from steptune.core.profile import Profile, unattributed_frac
from steptune.core.trial import Arm, Observation
from steptune.core.units import mib
from steptune.diagnose.diagnose import diagnose
from steptune.guard.health import health_problem
from steptune.profile.aggregate import ProfileInputs, health_of, profile_of
from steptune.profile.measure import NaturalRun, run_naturally
from steptune.stats.noise import noise_floor
from steptune.stats.warmup import num_warmup_steps
from steptune.trial.alternate import OneAtATime
from steptune.trial.blocks import BlockPlan, Pair, take_turns, warm_up
from steptune.tune.context import Context
from steptune.tune.gather import alternate_plan
from steptune.tune.once_more import once_more
from steptune.tune.parity import measure_band
from steptune.tune.profile_budget import (
    MIN_AA_PAIRS,
    after_profile_s,
    check_budget,
    check_first_steps,
    repeat_pairs,
    within_share,
)
from steptune.tune.step_guards import ages_of

AA_PLAN = BlockPlan(max_pairs=4, kept_steps=3)
"""The A/A repeat has the shape of a trial."""

NOTHING = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT)
"""The baseline's own change."""


def profile_baseline(context: Context, *, is_capped: bool) -> None:
    """Measure, check, record. ``is_capped``: whether the budget must pay for a trial after it (see `profile_budget`).

    Raises:
        HealthError: the run does not learn or is broken.
        LimitError: the baseline itself breaks a limit of the owner's, or the budget pays for no trial of it.
    """
    started_s, load_avg = time.monotonic(), os.getloadavg()[0]
    say = context.progress.say
    say("profile: the baseline as it is (lengths, reward, health)")
    settings = context.baseline_settings
    natural = once_more(lambda: _run_naturally(context, is_capped=is_capped), say)
    context.start = natural.start
    inputs = _natural_inputs(context, natural, load_avg)
    first = profile_of(context.job, inputs)
    check_health(first, natural.observations)
    check_limits(context, first)  # before the session's time goes into probes and repeats that nothing could use
    if is_capped:
        check_budget(context, first.step_time)
    say("profile: primitive costs (decode, prefill, training, hand-over); no candidate is run")
    share = partial(within_share, context, first.step_time, AA_PLAN) if is_capped else nullcontext
    with share():
        costs = context.framework.probe_costs(context.job, context.run_path("profile", "probe"))
    with share():
        measure_band(context)
    forced = None if context.job.algorithm.dynamic_sampling else natural.lengths
    seed = context.job.algorithm.seed  # the trials' own, so that the run can be their incumbent
    repeat = LaunchSpec(settings=settings, seed=seed, forced_lengths=forced)
    plan = _repeat_plan(context, first) if is_capped else AA_PLAN
    later_s = after_profile_s(first.step_time.value) if is_capped else -math.inf  # advice has all the time it takes
    with context.budget.keeping(later_s):
        pairs, alternate_because = once_more(lambda: _repeat(context, repeat, first.memory_peak_bytes, plan), say)
    arms = _arms(pairs)
    kept = (*arms[0].observations, *arms[1].observations)
    noise = noise_floor(*([o.step_time_s for o in arm.observations] for arm in arms))
    profile = profile_of(
        context.job, replace(inputs, kept=kept, also_seen=natural.observations, noise=noise, costs=costs)
    )
    check_limits(context, profile)
    wall_s = time.monotonic() - started_s
    context.record(
        Profiled(
            label="baseline",
            profile=profile,
            arms=arms,
            alternate_because=alternate_because,
            start_up_s=context.runs.start_up_s,
            evaluate_s=natural.evaluate_s,
            cost_wall_s=wall_s,
            cost_device_s=wall_s * context.job.devices.num_cores,
        )
    )
    say(
        f"profile: step {profile.step_time}, noise within a launch {noise.within_launch_cv:.1%}, "
        f"between launches {noise.between_launch_frac:.1%}, unattributed {unattributed_frac(profile):.1%}"
    )


def _run_naturally(context: Context, *, is_capped: bool) -> NaturalRun:
    return run_naturally(
        context.framework,
        context.job,
        context.baseline_settings,
        context.run_path("profile", "natural"),
        clock=context.budget.clock,
        check=partial(check_first_steps, context) if is_capped else lambda steps: None,
    )


def _repeat_plan(context: Context, first: Profile) -> BlockPlan:
    """Return the plan of the A/A repeat, shorter where the profile's share does not pay for all of it."""
    num_pairs = repeat_pairs(context, first.step_time, AA_PLAN)
    if num_pairs < AA_PLAN.max_pairs:
        context.progress.say(
            f"profile: {num_pairs} A/A pairs in place of {AA_PLAN.max_pairs}, so that a trial and what follows it fit"
        )
    return replace(AA_PLAN, max_pairs=num_pairs)


def name_bottlenecks(context: Context) -> None:
    """Diagnose the baseline and record what holds it up."""
    found = diagnose(context.baseline, context.planned(context.baseline_settings))
    context.record(Diagnosed(bottlenecks=found))
    for bottleneck in found:
        context.progress.say(f"diagnose: {bottleneck.kind}: {bottleneck.evidence}")


def check_health(profile: Profile, observations: tuple[Observation, ...]) -> None:
    """Refuse to tune a sick run.

    Raises:
        HealthError: says what to fix first.
    """
    problem = health_problem(profile, observations)
    if problem is not None:
        raise HealthError(problem)


def check_limits(context: Context, profile: Profile) -> None:
    """Refuse limits that the baseline itself breaks: no change could be held against them.

    Raises:
        LimitError: names the limit, the baseline's value and what would hold.
        HealthError: the gap that a limit is about is NaN or infinite.
    """
    limits, mismatch = context.job.limits, profile.mismatch
    if mismatch is not None and not math.isfinite(mismatch.k3):
        raise HealthError(
            explain(
                "the baseline's rollout-trainer gap is not a number",
                got=f"k3 {mismatch.k3}",
                allowed="a finite gap",
                hint="find the step whose log-probs are NaN or infinite, then tune",
            )
        )
    if mismatch is not None and mismatch.k3 > limits.max_mismatch_k3:
        raise LimitError(
            explain(
                "`limits.max_mismatch_k3` is below the baseline's own mismatch",
                got=f"{limits.max_mismatch_k3:g} against {mismatch.k3:.3g} nat",
                allowed=f"{mismatch.k3:.3g} or more",
                hint="fix the baseline's rollout-trainer gap, or raise the limit",
            )
        )
    peak, total = profile.memory_peak_bytes, context.framework.total_memory_bytes()
    allowed = (1 - limits.memory_headroom_frac) * total
    if peak is not None and peak.value > allowed:
        raise LimitError(
            explain(
                "`limits.memory_headroom_frac` cannot be met by the baseline",
                got=f"a peak of {mib(peak.value):.0f} MiB",
                allowed=f"{mib(allowed):.0f} of {mib(total):.0f} MiB",
                hint="ask for less head-room or use a machine with more memory",
            )
        )


def _natural_inputs(context: Context, natural: NaturalRun, load_avg: float) -> ProfileInputs:
    steps = natural.observations
    num_warmup = num_warmup_steps([o.step_time_s for o in steps])
    return ProfileInputs(
        framework=context.framework.name,
        version=context.framework.version(),
        settings=context.baseline_settings,
        kept=steps[num_warmup:],
        num_warmup=num_warmup,
        lengths=natural.lengths,
        health=health_of(steps),
        noise=None,
        costs=(),
        load_avg=load_avg,
    )


def _repeat(context: Context, spec: LaunchSpec, peak: Estimate | None, plan: BlockPlan) -> tuple[list[Pair], str]:
    """Run the baseline against itself in launches that take turns; one at a time where two have no room together.

    The text says why; it is empty where both were up.
    """
    total, because = context.framework.total_memory_bytes(), ""
    if peak is not None and 2 * peak.value > total:
        because = f"two launches of the baseline need {mib(2 * peak.value):.0f} of {mib(total):.0f} MiB"
    if not because:
        try:
            return _repeat_together(context, spec, plan), ""
        except MemoryError as error:
            because = f"two launches of the baseline together ran out of memory ({error})"
    context.progress.say(f"profile: {because}; one at a time")
    context.runs.stop()

    def start() -> Session:
        return context.runs.launch_fresh(context.job, spec, context.run_path("profile", "repeat"))

    arms = OneAtATime(launch=(start, start), ages=ages_of(context.job))
    return list(arms.pairs(alternate_plan(plan))), because


def _repeat_together(context: Context, spec: LaunchSpec, plan: BlockPlan) -> list[Pair]:
    """Run two launches in turn; the first may wait to be the trials' incumbent."""
    sessions: list[Session] = []
    pairs: list[Pair] = []
    try:
        launchers: dict[str, Launches] = {"a": context.runs, "b": context.framework}
        for name, launcher in launchers.items():
            sessions.append(launcher.launch(context.job, spec, context.run_path("profile", name)))
        warm_up(sessions)
        for pair in take_turns(sessions[0], sessions[1], plan):
            pairs.append(pair)
            context.progress.say(f"profile: A/A pair {len(pairs)} of {plan.max_pairs}, ratio {pair.ratio:.3f}")
            if len(pairs) >= MIN_AA_PAIRS and context.budget.stage_left_s() <= 0:
                break  # slower than its first steps: the rest of the budget is what a trial and its confirmation need
    finally:
        for session in sessions:
            session.close()
    return pairs


def _arms(pairs: list[Pair]) -> tuple[Arm, Arm]:
    first = tuple(step for pair in pairs for step in pair.incumbent)
    second = tuple(step for pair in pairs for step in pair.candidate)
    return (
        Arm(label="baseline", signature=NOTHING.signature, observations=first),
        Arm(label="baseline again", signature=NOTHING.signature, observations=second),
    )
