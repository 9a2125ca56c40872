"""Whole sessions about speed: the A/A repeat, trials of several candidates, and the confirmation of the last lead.

Every rule is the tuner's: `noise_floor`, `run_trial` with its `StopRule`, `gather`, `judge_trial`, `confirm_launches`,
`decide`. What is simulated is the machine and that the guards pass.
"""

import random
from dataclasses import dataclass
from pathlib import Path

from steptune.core.ages import Ages
from steptune.core.change import Change, Move
from steptune.core.decision import Decision, Outcome
from steptune.core.estimate import Estimate
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec, LimitsSpec
from steptune.core.knob import Effect, Restart
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Trial
from steptune.core.verdict import Judgement, Verdict
from steptune.decide.final import Costs, decide
from steptune.decide.owed import OWED_AT_DECISION
from steptune.decide.trial import judge_trial
from steptune.stats.looks import TRIAL_LOOKS
from steptune.stats.noise import noise_floor
from steptune.trial.blocks import BlockPlan, Pair, rotate_arms, take_turns, warm_up
from steptune.trial.run import Evidence, run_trial
from steptune.tune.baseline import AA_PLAN
from steptune.tune.gather import TRIAL_PLAN, gather, plan_for
from steptune.tune.launches import Blocks, confirm_launches, launch_ratio
from steptune.tune.plans import CONFIRM_PLAN
from steptune.tune.stop_rule import StopRule
from verdict_parts.machine import Machine, Noise

JOB = JobSpec(name="simulated", framework="fake", limits=LimitsSpec())

COSTS = Costs(wall_s=1.0, device_s=1.0, paid_s=1.0, baseline_step_s=1.0, tuned_step_s=0.9)

PASSED = tuple(
    Verdict(guard=guard, judgement=Judgement.PASS, limit="simulated", because="simulated")
    for guard in OWED_AT_DECISION[Effect.NONE]
)


@dataclass(frozen=True, kw_only=True)
class Session:
    """How one simulated session ended."""

    decision: Decision
    num_pairs: int
    """Pairs of blocks that the decided change took, trial and confirmation together."""
    num_leads: int
    """Trials that ended in ADOPT."""


def change_of(number: int) -> Change:
    """Return the change of one candidate."""
    return Change(moves=(Move(knob=f"k{number}", old=0, new=1),), effect=Effect.NONE, restart=Restart.HOT)


def session(trace: list[list[float]], noise: Noise, factors: list[float], seed: str) -> Session:
    """Run one session on candidates that take ``factors`` of the baseline's time."""
    machine = Machine(trace=trace, noise=noise, rng=random.Random(seed))
    floor = _floor(machine)
    incumbent: tuple[Change, float, int] | None = None
    num_leads = 0
    for number, factor in enumerate(factors, 1):
        base = incumbent[1] if incumbent else 1.0
        trial, outcome = _try(machine, floor, number, base, factor)
        if outcome is Outcome.ADOPT:
            assert trial.ratio is not None
            num_leads += 1
            incumbent = (trial.change, factor, trial.ratio.n or 0)
    if incumbent is None:
        return Session(
            decision=_decide(Change(moves=(), effect=Effect.NONE, restart=Restart.HOT), None, floor),
            num_pairs=0,
            num_leads=0,
        )
    change, factor, trial_pairs = incumbent
    confirm_plan = plan_for(CONFIRM_PLAN, floor)
    launches = confirm_launches(
        lambda _number: _launch(machine, [1.0, factor], confirm_plan), [1.0, 1.0], lambda: float("inf")
    )
    decision = _decide(change, launch_ratio(launches, 0, 1, [1.0, 1.0]), floor)
    return Session(
        decision=decision, num_pairs=trial_pairs + CONFIRM_PLAN.max_pairs * len(launches), num_leads=num_leads
    )


def _floor(machine: Machine) -> NoiseFloor:
    arms = [_start(machine, 1.0) for _ in range(2)]
    warm_up(arms)
    pairs = list(take_turns(arms[0], arms[1], AA_PLAN))
    return noise_floor(
        [step.step_time_s for pair in pairs for step in pair.incumbent],
        [step.step_time_s for pair in pairs for step in pair.candidate],
    )


def _try(machine: Machine, floor: NoiseFloor, number: int, base: float, factor: float) -> tuple[Trial, Outcome]:
    change, plan = change_of(number), plan_for(TRIAL_PLAN, floor)
    rule = StopRule(limits=JOB.limits, own_lag=0, noise=floor, max_looks=TRIAL_LOOKS.last - 1)

    def run(earlier: tuple[Pair, ...]) -> Trial:
        incumbent = _start(machine, base)
        evidence = Evidence(pairs=earlier, warm_up=tuple(warm_up([incumbent])), ages=Ages(max_staleness=0, own_lag=0))
        return run_trial(
            machine,  # type: ignore[arg-type]  it can launch, and a trial asks nothing else of it
            JOB,
            LaunchSpec(settings={"factor": factor}, seed=1),
            number=number,
            change=change,
            incumbent=incumbent,
            incumbent_signature="",
            plan=plan,
            keep_going=rule,
            evidence=evidence,
            out_dir=Path(),
        )

    trial, judged = gather(run, lambda trial: (PASSED, *judge_trial(trial, PASSED, floor)), _quiet, plan)
    return trial, judged[1]


def _launch(machine: Machine, factors: list[float], plan: BlockPlan) -> Blocks:
    runs = [_start(machine, factor) for factor in factors]
    warm_up(runs)
    return rotate_arms(runs, plan.max_pairs, plan)


def _start(machine: Machine, factor: float):  # noqa: ANN202  a simulated session
    return machine.launch(JOB, LaunchSpec(settings={"factor": factor}, seed=1), Path())


def _decide(change: Change, speedup: Estimate | None, floor: NoiseFloor) -> Decision:
    return decide(
        change=change,
        num_tried=1,
        baseline={},
        effect=change.effect,
        confirmed_speedup=speedup,
        step_speedup=None,
        over_best_practice=None,
        verdicts=PASSED,
        noise=floor,
        costs=COSTS,
        holds_for=None,
        tripwires=(),
    )


def _quiet(_line: str) -> None:
    """Say nothing."""
