"""Small events, a clock and a job for the store's tests."""

from datetime import UTC, datetime, timedelta

from steptune.core.change import Change, Move
from steptune.core.decision import Decision, Outcome, Tripwire
from steptune.core.estimate import Estimate, Source
from steptune.core.event import (
    Confirmed,
    Decided,
    Diagnosed,
    Event,
    Forecasted,
    Machine,
    Profiled,
    Proposed,
    RewardTested,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    TrialEnded,
    TrialStarted,
    Waterfall,
    WaterfallStep,
)
from steptune.core.forecast import Forecast
from steptune.core.framework import Lever
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, Restart
from steptune.core.profile import Profile
from steptune.core.trial import Trial, TrialState
from steptune.core.work import PlannedWork

JOB = JobSpec(name="tiny")

PACKED = Change(
    moves=(Move(knob="layout", old="padded", new="packed"),), effect=Effect.NONE, restart=Restart.HOT, why=("padding",)
)

NO_WORK = PlannedWork(
    items=(), schedule="sync", lag=0, trainer_cores=2, rollout_cores=2, memory_bytes=0, padded_tokens=0, active_tokens=0
)


class SteppingClock:
    """Tells a time that moves on by one second with every look at it."""

    def __init__(self) -> None:
        self.now = datetime(2025, 11, 2, 8, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def estimate(value: float, unit: str = "s") -> Estimate:
    return Estimate(value=value, low=value * 0.9, high=value * 1.1, unit=unit, source=Source.MEASURED, n=8)


def started() -> SessionStarted:
    machine = Machine(cpu="a cpu", num_cores=2, memory_bytes=8 * 2**30, python="3.11", torch=None, platform="linux")
    lever = Lever(knob="layout", value="padded", why="the default")
    return SessionStarted(
        steptune_version="0.1.0",
        code_hash="c0de",
        job=JOB,
        machine=machine,
        baseline_levers=(lever,),
        best_practice_levers=(lever,),
    )


def profiled(label: str = "baseline") -> Profiled:
    profile = Profile(framework="fake", step_time=estimate(1.0), roles=(), num_steps=8)
    return Profiled.model_validate({"label": label, "profile": profile, "cost_wall_s": 10.0, "cost_device_s": 20.0})


def forecasted(number: int, purpose: str = "trial") -> Forecasted:
    forecast = Forecast(
        change=PACKED,
        step_time=estimate(0.7),
        ratio=estimate(0.7, "x"),
        phases=(),
        lag=0,
        memory_fits=True,
        num_free_parameters=2,
        profile_hash="abc",
    )
    return Forecasted.model_validate(
        {
            "purpose": purpose,
            "trial_number": number,
            "is_first": number == 1,
            "forecast": forecast,
            "planned": NO_WORK,
            "planned_baseline": NO_WORK,
            "history": (),
        }
    )


def trial_started(number: int) -> TrialStarted:
    return TrialStarted(number=number, change=PACKED, incumbent_signature="base")


def trial_ended(number: int, state: TrialState = TrialState.FINISHED) -> TrialEnded:
    trial = Trial(number=number, change=PACKED, state=state, cost_wall_s=3.0, cost_device_s=6.0)
    return TrialEnded(trial=trial, verdicts=(), outcome=Outcome.REJECT, reasons=("slower",))


def decided() -> Decided:
    return Decided(
        decision=Decision(
            outcome=Outcome.PROVISIONAL,
            change=PACKED,
            settings={"layout": "packed"},
            speedup=estimate(1.4, "x"),
            reasons=("faster",),
            tripwires=(Tripwire(metric="mismatch_k3", bound=1e-3, above=True, action="return to the baseline"),),
            cost_wall_s=30.0,
            cost_device_s=60.0,
            break_even_step=100,
        )
    )


def confirmed() -> Confirmed:
    return Confirmed(
        signature=PACKED.signature,
        arms=(),
        speedup=estimate(1.4, "x"),
        speedup_over_best_practice=None,
        raw_speedup=None,
        cost_wall_s=5.0,
        cost_device_s=10.0,
    )


def reward_tested() -> RewardTested:
    return RewardTested(
        signature=PACKED.signature,
        start_S=(0.1, float("nan")),
        baseline_S=(0.5, 0.6),
        candidate_S=(0.5, float("inf")),
        baseline_truncated_S=(0.0, 0.0),
        candidate_truncated_S=(0.0, 0.0),
        verdicts=(),
        cost_wall_s=7.0,
        cost_device_s=14.0,
    )


def waterfall() -> Waterfall:
    row = WaterfallStep(added=str(PACKED), step_time=estimate(0.7), ratio_to_previous=None, signature=PACKED.signature)
    return Waterfall(rows=(row,), cost_wall_s=4.0, cost_device_s=8.0)


def session() -> list[Event]:
    """A whole session: one trial finished, one killed, resumed and stopped, then the decision."""
    return [
        started(),
        profiled(),
        Diagnosed(bottlenecks=()),
        Proposed(num_candidates=3, num_refused=1, refusals=("too stale",), prices=()),
        forecasted(1),
        trial_started(1),
        trial_ended(1),
        forecasted(2),
        trial_started(2),
        SessionResumed(code_hash="c0de", abandoned_trials=(2,)),
        trial_started(2),
        trial_ended(2, TrialState.STOPPED),
        reward_tested(),
        forecasted(1, "waterfall"),
        waterfall(),
        confirmed(),
        profiled("tuned"),
        decided(),
        SessionEnded(why="done", cost_wall_s=39.0, cost_device_s=78.0),
    ]
