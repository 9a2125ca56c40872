"""One trial from launch to verdict: runs it, guards it, judges it, records it."""

import time
from collections.abc import Sequence

from steptune.core.change import Change
from steptune.core.decision import Outcome
from steptune.core.errors import BudgetSpentError, KilledError
from steptune.core.estimate import Estimate, Source
from steptune.core.event import Screened, TrialEnded, TrialStarted
from steptune.core.forecast import Forecast
from steptune.core.job import Objective
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Trial, TrialState
from steptune.core.verdict import Verdict
from steptune.decide.screen import leads
from steptune.decide.trial import judge_trial
from steptune.score.lags import measured_lag
from steptune.stats.noise import worth_frac
from steptune.trial.blocks import BlockPlan, Pair
from steptune.trial.recorded import NotRecordedError, Recorded, recorded
from steptune.trial.run import finished_trial
from steptune.tune.baseline import NOTHING
from steptune.tune.bout import Bout, run_bout
from steptune.tune.context import Context, trial_spec
from steptune.tune.far_gain import FEW_STEPS_PLAN, is_far, slow_end
from steptune.tune.gather import Judged, gather, trial_plan
from steptune.tune.measured_side import steps_of
from steptune.tune.objectives import step_ratio
from steptune.tune.once_more import once_more
from steptune.tune.parity import judge_replay, replay_winner
from steptune.tune.screen import Prices, may_be_short, screen
from steptune.tune.screened import screened_out, with_cost
from steptune.tune.search_state import SearchState
from steptune.tune.step_guards import guard_trial

NAN = float("nan")
"""A least gain that nobody knows: nothing passes it."""

MAX_STARTS = 10
"""Times one trial may be started: who kills sessions by hand or by chance does not meet it (bench/chaos.py kills ten
times), a supervisor that resumes for ever does. The budget is no bound: what a killed process spent after its last line
is not known."""


def try_change(
    context: Context, *, number: int, change: Change, found: SearchState, forecast: Forecast, prices: Prices
) -> None:
    """Screen trial ``number``, run it if it may be won, and record its result."""
    started_s = time.monotonic()
    incumbent = found.incumbent.trial.change if found.incumbent else NOTHING
    context.record(TrialStarted(number=number, change=change, incumbent_signature=incumbent.signature))
    screened = None
    if not crash_loop(context, number):
        screened = screen(
            context,
            number=number,
            change=change,
            incumbent=incumbent,
            incumbent_ratio=found.incumbent_ratio,
            forecast=forecast,
            prices=prices,
        )
    if screened is not None and not screened.goes_on:
        trial = screened_out(context, screened, change, incumbent)
        verdicts, outcome, reasons = judge(context, trial)
        ratio = scaled(screened.ratio, found)
    else:
        trial, (verdicts, outcome, reasons), measured = _run(context, number, change, found, forecast, screened)
        ratio = scaled(measured, found)
    replayed = replay_winner(context, change) if outcome is Outcome.ADOPT else None
    if replayed is not None:
        verdicts = (*verdicts, judge_replay(replayed))
        outcome, reasons = _outcome(context, trial, verdicts)
    trial = with_cost(trial, time.monotonic() - started_s, context.job.devices.num_cores)
    context.record(
        TrialEnded(
            trial=trial,
            verdicts=verdicts,
            outcome=outcome,
            reasons=reasons,
            ratio_to_baseline=ratio,
            replayed=replayed,
        )
    )
    best = change if outcome is Outcome.ADOPT else incumbent
    context.runs.keep_only(trial_spec(context, best.applied_to(context.baseline_settings)))
    _tell(context, number, forecast, ratio, outcome, reasons)
    _tell_ages(context, trial, forecast)


def _run(
    context: Context, number: int, change: Change, found: SearchState, forecast: Forecast, screened: Screened | None
) -> tuple[Trial, Judged, Estimate | None]:
    """Return the trial, its judgement and the best ratio to the incumbent that there is."""
    incumbent = found.incumbent.trial.change if found.incumbent else NOTHING
    noise = context.noise
    far = is_far(slow_end(forecast), found.incumbent_ratio, noise, context.job.objective)
    short = _few_steps(context, number, change, incumbent, screened, far=far)
    if short is not None:
        return short
    plan = trial_plan(noise, None if forecast.refused else 1 - forecast.ratio.value / found.incumbent_ratio)

    def run(earlier: tuple[Pair, ...]) -> Trial:
        trial = attempt(context, number, change, incumbent, plan, earlier)
        return trial.model_copy(update={"step_ratio": step_ratio(context, trial.ratio, found, change)})

    trial, judged = gather(
        run,
        lambda trial: judge(context, trial),
        context.progress.say,
        plan,
        line=1 - (worth_frac(noise) or 0.0),
    )
    return trial, judged, trial.ratio


def _few_steps(
    context: Context, number: int, change: Change, incumbent: Change, screened: Screened | None, *, far: bool
) -> tuple[Trial, Judged, Estimate | None] | None:
    """Return a trial of few whole steps of the candidate alone; None where both arms have to be launched.

    Either a replay has shown a gain and they bear it out, or the gain lies beyond any drift, by the forecast (``far``)
    and by these steps. It is not enough where the objective counts devices: both arms have to show no slower a step.
    """
    noise = context.noise
    known = recorded(steps_of(context.state, incumbent.signature), FEW_STEPS_PLAN)
    if known is None or context.job.objective is Objective.DEVICE_SECONDS_PER_STEP:
        return None
    has_lead = screened is not None and may_be_short(change) and leads(screened.ratio, _worth(noise))
    if not (has_lead or far):
        return None
    try:
        trial = attempt(context, number, change, incumbent, FEW_STEPS_PLAN, known=known)
    except NotRecordedError as error:
        context.progress.say(f"trial {number}: {error}; both arms in turn")
        return None
    judged = judge(context, trial)
    if judged[1] is not Outcome.EXTEND:
        replayed = screened.ratio if screened is not None and has_lead else trial.ratio
        return trial, judged, None if trial.ratio is None else replayed
    context.progress.say(f"trial {number}: {'; '.join(judged[2])}; both arms in turn")
    return None


def _worth(noise: NoiseFloor) -> float:
    worth = worth_frac(noise)
    return NAN if worth is None else worth


def attempt(
    context: Context,
    number: int,
    change: Change,
    incumbent: Change,
    plan: BlockPlan,
    earlier: tuple[Pair, ...] = (),
    known: Recorded | None = None,
) -> Trial:
    """Run the trial; a budget that ends while its incumbent warms up stops it as one that ends later does.

    One that took its session down `MAX_STARTS` times is not run again: it failed. So has one whose runs were killed
    from outside twice. ``known``: see `run_bout`.
    """
    bout = Bout(context=context, number=number, change=change, incumbent=incumbent, plan=plan, earlier=earlier)
    state, cause = TrialState.FAILED, crash_loop(context, number)
    if not cause:
        try:
            return once_more(lambda: run_bout(bout, known), context.progress.say)
        except BudgetSpentError as error:
            state, cause = TrialState.STOPPED, str(error)
        except KilledError as error:
            cause = str(error)
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
    """Guard and judge a trial by its steps. Updates are replayed for a winner alone, once its steps are done."""
    verdicts = guard_trial(context.state, trial)
    return verdicts, *_outcome(context, trial, verdicts)


def _outcome(context: Context, trial: Trial, verdicts: Sequence[Verdict]) -> tuple[Outcome, tuple[str, ...]]:
    screened = context.state.screening_of(trial.number, trial.change.signature)
    replay = None if screened is None else screened.ratio
    return judge_trial(trial, verdicts, context.noise, replay)


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


def _tell_ages(context: Context, trial: Trial, forecast: Forecast) -> None:
    """Say how old the trial's tokens were beside what was forecast, where they may be older than a step."""
    steps = tuple(step for arm in trial.arms if arm.label == "candidate" for step in arm.observations)
    measured = measured_lag(steps, num_updates=context.job.algorithm.num_updates)
    ages = forecast.ages
    if forecast.lag == 0 or ages is None or measured is None or measured.mean is None:
        return
    told = "not forecast" if ages.mean is None else f"forecast {ages.mean.value:.2f}"
    context.progress.say(f"trial {trial.number}: trained tokens {measured.mean.value:.2f} updates old, {told}")


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
