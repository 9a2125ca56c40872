"""One trial from launch to verdict: runs it, guards it, judges it, records it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import final

from steptune.core.ages import Ages
from steptune.core.change import Change
from steptune.core.decision import Outcome
from steptune.core.errors import BudgetSpentError
from steptune.core.estimate import Estimate, Source
from steptune.core.event import TrialEnded, TrialStarted
from steptune.core.forecast import Forecast
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec, LimitsSpec
from steptune.core.knob import Effect, Settings
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Observation, Trial, TrialState
from steptune.core.verdict import Verdict
from steptune.decide.stop import cannot_win
from steptune.decide.trial import judge_trial
from steptune.guard.entropy_guard import check_entropy
from steptune.guard.memory import check_memory
from steptune.guard.mismatch import check_mismatch
from steptune.guard.off_policy import check_off_policy
from steptune.guard.same_work import check_same_work
from steptune.guard.steady import check_steady
from steptune.guard.weights_arrived import check_weights_arrived
from steptune.profile.aggregate import work_signature
from steptune.stats.looks import TRIAL_LOOKS
from steptune.stats.noise import worth_frac
from steptune.stats.sequential import sequential_ratio_interval
from steptune.trial.blocks import BlockPlan, Pair, warm_up
from steptune.trial.clear_lead import ClearLead
from steptune.trial.run import Evidence, finished_trial, pair_times, run_trial
from steptune.tune.baseline import NOTHING
from steptune.tune.context import Context
from steptune.tune.gather import TRIAL_PLAN, Judged, gather, plan_for
from steptune.tune.parity import update_parity
from steptune.tune.screen import screen
from steptune.tune.screened import screened_out, with_cost
from steptune.tune.search_state import SearchState

MIN_PAIRS_TO_STOP = 2
"""Pairs before a trial may be stopped early: one pair has no interval."""

MAX_STARTS = 10
"""Times one trial may be started: who kills sessions by hand or by chance does not meet it (bench/chaos.py kills ten
times), a supervisor that resumes for ever does. The budget is no bound: what a killed process spent after its last line
is not known."""


def try_change(
    context: Context, *, number: int, change: Change, found: SearchState, forecast: Forecast, cost_steps: float
) -> None:
    """Screen trial ``number``, run it if it may be won, and record its result.

    ``cost_steps``: what the trial is expected to take, in steps of the baseline.
    """
    started_s = time.monotonic()
    incumbent = found.incumbent.trial.change if found.incumbent else NOTHING
    context.record(TrialStarted(number=number, change=change, incumbent_signature=incumbent.signature))
    screened = None
    if not crash_loop(context, number):
        screened = screen(
            context, number=number, change=change, incumbent=incumbent, forecast=forecast, cost_steps=cost_steps
        )
    if screened is not None and not screened.goes_on:
        trial = screened_out(context, screened, change, incumbent)
        verdicts, outcome, reasons = judge(context, trial)
        ratio = scaled(screened.ratio, found)
    else:
        trial, (verdicts, outcome, reasons) = _run(context, number, change, incumbent)
        ratio = scaled(trial.ratio, found)
    trial = with_cost(trial, time.monotonic() - started_s, context.job.devices.num_cores)
    context.record(
        TrialEnded(trial=trial, verdicts=verdicts, outcome=outcome, reasons=reasons, ratio_to_baseline=ratio)
    )
    best = change if outcome is Outcome.ADOPT else incumbent
    context.runs.keep_only(trial_spec(context, best.applied_to(context.baseline_settings)))
    _tell(context, number, forecast, ratio, outcome, reasons)


def _run(context: Context, number: int, change: Change, incumbent: Change) -> tuple[Trial, Judged]:
    plan = plan_for(TRIAL_PLAN, context.baseline.noise or _no_noise())
    return gather(
        lambda earlier: attempt(context, number, change, incumbent, plan, earlier),
        lambda trial: judge(context, trial),
        context.progress.say,
        plan,
    )


def attempt(
    context: Context, number: int, change: Change, incumbent: Change, plan: BlockPlan, earlier: tuple[Pair, ...] = ()
) -> Trial:
    """Run the trial; a budget that ends while its incumbent warms up stops it as one that ends later does.

    One that took its session down `MAX_STARTS` times is not run again: it failed.
    """
    state, cause = TrialState.FAILED, crash_loop(context, number)
    if not cause:
        try:
            return run_against(context, number, change, incumbent, plan, earlier)
        except BudgetSpentError as error:
            state, cause = TrialState.STOPPED, str(error)
    return finished_trial(
        earlier,
        number=number,
        change=change,
        state=state,
        cause=cause,
        incumbent_signature=incumbent.signature,
        wall_s=0.0,
        num_cores=context.job.devices.num_cores,
        load_avg=None,
    )


def crash_loop(context: Context, number: int) -> str:
    """Return why trial ``number`` must not be started once more; empty where it may."""
    started = sum(isinstance(event, TrialStarted) and event.number == number for event in context.journal.events)
    if started <= MAX_STARTS:
        return ""
    return f"it was started {MAX_STARTS} times and never ended: the session died each time, perhaps of it"


def judge(context: Context, trial: Trial) -> Judged:
    """Guard and judge a trial. Updates are replayed for a winner alone, which has to prove itself."""
    noise = context.baseline.noise or _no_noise()
    verdicts = guard_trial(context, trial)
    outcome, reasons = judge_trial(trial, verdicts, noise)
    if outcome is Outcome.ADOPT:
        verdicts = (*verdicts, *update_parity(context, trial.change))
        outcome, reasons = judge_trial(trial, verdicts, noise)
    return verdicts, outcome, reasons


def run_against(
    context: Context, number: int, change: Change, incumbent: Change, plan: BlockPlan, earlier: tuple[Pair, ...] = ()
) -> Trial:
    """Launch the incumbent and the change, let them take turns, and return the trial with its earlier pairs."""
    baseline = context.baseline_settings
    folder = context.folder.new_trial_folder(number, change.signature)
    devices_ratio = context.weight(change.applied_to(baseline)) / context.weight(incumbent.applied_to(baseline))
    session = context.runs.launch(
        context.job, trial_spec(context, incumbent.applied_to(baseline)), folder / "incumbent"
    )
    try:
        evidence = Evidence(pairs=earlier, warm_up=tuple(warm_up([session])), ages=ages_of(context.job))
        return run_trial(
            context.runs,
            context.job,
            trial_spec(context, change.applied_to(baseline)),
            number=number,
            change=change,
            incumbent=session,
            incumbent_signature=incumbent.signature,
            plan=plan,
            evidence=evidence,
            keep_going=StopRule(
                limits=context.job.limits,
                own_lag=context.job.algorithm.num_updates - 1,
                noise=context.baseline.noise or _no_noise(),
                max_looks=TRIAL_LOOKS.last - 1,
                devices_ratio=devices_ratio,
            ),
            out_dir=folder / "candidate",
            devices_ratio=devices_ratio,
            is_clear=clear_lead(context, change, devices_ratio),
        )
    finally:
        session.close()


def clear_lead(context: Context, change: Change, devices_ratio: float) -> Callable[[Sequence[Pair]], bool]:
    """Return what ends a trial that is won. Precision and staleness have to be watched for all steps of the plan."""
    noise = context.baseline.noise
    band = worth_frac(noise) if noise else None
    if noise is None or band is None or change.effect is not Effect.NONE:
        return lambda pairs: False
    return ClearLead(noise=noise, band_frac=band, devices_ratio=devices_ratio)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StopRule:
    """Ends a running trial that breaks a limit or can no longer win."""

    limits: LimitsSpec
    own_lag: int
    noise: NoiseFloor
    max_looks: int
    devices_ratio: float = 1.0
    """See `core.trial.Trial`."""

    def __call__(self, pairs: Sequence[Pair]) -> str | None:
        """Return why the trial should stop, or None."""
        steps = [step for pair in pairs for step in pair.candidate]
        return self._broken_limit(steps) or self._lost(pairs)

    def _broken_limit(self, steps: Sequence[Observation]) -> str | None:
        k3s = [step.mismatch.k3 for step in steps if step.mismatch is not None]
        if k3s and median(k3s) > self.limits.max_mismatch_k3:
            return f"breaks limits.max_mismatch_k3: {median(k3s):.3g} nat, allowed {self.limits.max_mismatch_k3:g}"
        oldest = max(step.lag_max for step in steps) - self.own_lag
        if oldest > self.limits.max_staleness:
            return f"breaks limits.max_staleness: {oldest} updates, allowed {self.limits.max_staleness}"
        return None

    def _lost(self, pairs: Sequence[Pair]) -> str | None:
        if len(pairs) < MIN_PAIRS_TO_STOP:
            return None
        candidate, incumbent = pair_times(pairs, self.devices_ratio)
        so_far = sequential_ratio_interval(candidate, incumbent, max_looks=self.max_looks)
        if not cannot_win(so_far, self.noise):
            return None
        return f"cannot win any more: ratio {so_far.value:.3f} ({so_far.low:.3f} to {so_far.high:.3f})"


def guard_trial(context: Context, trial: Trial) -> tuple[Verdict, ...]:
    """Return every guard's verdict that a trial's own steps can give; none where the candidate never ran."""
    arms = {arm.label: arm.observations for arm in trial.arms}
    if not arms:
        return ()
    job, candidate = context.job, arms["candidate"]
    baseline = _baseline_steps(context)
    work = work_signature(job)
    settings = trial.change.applied_to(context.baseline_settings)
    return (
        check_same_work(candidate_work=work, baseline_work=work, candidate=candidate, baseline=arms["incumbent"]),
        check_mismatch(candidate, baseline, max_mismatch_k3=job.limits.max_mismatch_k3),
        check_off_policy(
            candidate,
            max_staleness=job.limits.max_staleness,
            own_lag=job.algorithm.num_updates - 1,
            has_correction=settings.get("correction", "none") != "none",
            allow_corrections=job.limits.allow_corrections or job.algorithm.correction.kind != "none",
        ),
        check_steady(candidate, arms["incumbent"], ages=ages_of(job)),
        check_entropy(candidate, baseline),
        check_memory(
            candidate,
            total_bytes=context.framework.total_memory_bytes(),
            headroom_frac=job.limits.memory_headroom_frac,
        ),
        *weights_arrived(candidate),
    )


def weights_arrived(candidate: Sequence[Observation]) -> tuple[Verdict, ...]:
    """Return the verdict on the hand-overs; none where the framework, or the schedule, tells of none."""
    if not any(step.arrivals for step in candidate):
        return ()
    return (check_weights_arrived(candidate),)


def scaled(ratio: Estimate | None, found: SearchState) -> Estimate | None:
    """Return candidate / baseline of a ratio to the incumbent: times the incumbent's own."""
    if ratio is None or found.incumbent is None:
        return ratio
    scale, low, high = found.incumbent_ratio, ratio.low, ratio.high
    return Estimate(
        value=ratio.value * scale,
        low=None if low is None else low * scale,
        high=None if high is None else high * scale,
        unit="x",
        source=Source.DERIVED,
        n=ratio.n,
        note=f"ratio to the incumbent times the incumbent's own {scale:.3f}",
    )


def trial_spec(context: Context, settings: Settings) -> LaunchSpec:
    """Return how an arm of a trial is launched."""
    return LaunchSpec(settings=dict(settings), seed=context.job.algorithm.seed, forced_lengths=context.forced_lengths)


def ages_of(job: JobSpec) -> Ages:
    """Return the ages that a job's steps may have."""
    return Ages(max_staleness=job.limits.max_staleness, own_lag=job.algorithm.num_updates - 1)


def _baseline_steps(context: Context) -> tuple[Observation, ...]:
    return tuple(step for arm in context.baseline_arms for step in arm.observations)


def _no_noise() -> NoiseFloor:
    raise AssertionError("a measured profile has a noise floor")


def _tell(
    context: Context,
    number: int,
    forecast: Forecast,
    ratio: Estimate | None,
    outcome: Outcome,
    reasons: tuple[str, ...],
) -> None:
    measured = "nothing measured" if ratio is None else f"measured {ratio.value:.3f} of the baseline's step"
    context.progress.say(
        f"trial {number}: {outcome}; {measured}, forecast {forecast.ratio.value:.3f}; {'; '.join(reasons)}"
    )
