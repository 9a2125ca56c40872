"""The reward test: paired training runs of baseline and candidate that share their seeds, on held-out problems.

Nobody reads a clock here, so the runs go side by side on one thread each. Start and end are measured on the
same fixed problems; the pairs differ only by the change. Every run starts from the same weights, so their start is
measured once: by the profile, or by the first run that lives.

A change that may slow learning also meets the baseline where that has spent as much device time: the baseline's runs
stop there to be measured, and go on.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import final

from steptune.core.change import Change
from steptune.core.errors import BudgetSpentError, TrialError
from steptune.core.event import RewardTested
from steptune.core.framework import LaunchSpec, Session
from steptune.core.knob import Settings
from steptune.core.trial import EvalResult, Observation
from steptune.core.verdict import Judgement, Verdict
from steptune.decide.owed import OWED_OF_TRAINING, REWARD_RATE
from steptune.guard.reward_rate import equal_time_step
from steptune.tune.context import Context
from steptune.tune.once_more import once_more
from steptune.tune.reward_guards import guard_training
from steptune.tune.room import too_large_together
from steptune.tune.stage_cost import UnitCosts, training_run_s


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRun:
    """One training run's ends."""

    start: EvalResult
    middle: EvalResult | None
    """At equal device time; of a baseline's run, where it is asked for."""
    end: EvalResult
    k3: tuple[float, ...] = ()
    """Same-weights gap of every step that has one, in nats."""


@final
@dataclass(kw_only=True, slots=True)
class Pace:
    """Seconds that a run of each arm takes: by price, and by the longest so far once one has ended."""

    unit: UnitCosts
    num_steps: int
    has_middle: bool
    longest_s: dict[str, float] = field(default_factory=dict[str, float])

    def run_s(self, label: str) -> float:
        """Return what a run of the arm called ``label`` is expected to take; nothing that is tested is slower."""
        priced_s = training_run_s(self.unit, self.num_steps, 1.0, 2 if self.has_middle else 1)
        return self.longest_s.get(label, priced_s)

    def saw(self, label: str, seconds: float) -> None:
        """Learn how long a run took."""
        self.longest_s[label] = max(seconds, self.longest_s.get(label, 0.0))


def run_reward_test(context: Context, change: Change, unit: UnitCosts) -> RewardTested:
    """Train pairs until the seeds or the test's share of the budget are used up; record and return the result.

    ``unit`` prices a run until one of its arm has shown what it takes.
    """
    started_s = time.monotonic()
    context.runs.stop()
    guard, num_cores = context.job.guard, context.job.devices.num_cores
    seeds = [context.job.algorithm.seed + 1 + i for i in range(guard.reward_seeds)]
    context.progress.say(f"reward: {len(seeds)} paired runs of {guard.reward_steps} steps, held-out problems")
    middle = _equal_time_step(context, change)
    arms = {"baseline": context.baseline_settings, "candidate": change.applied_to(context.baseline_settings)}
    jobs = [(label, seed) for seed in seeds for label in arms]  # pair by pair
    pace = Pace(unit=unit, num_steps=guard.reward_steps, has_middle=middle is not None)
    with ThreadPoolExecutor(max_workers=num_beside(context, list(arms.values()))) as pool:
        runs = list(pool.map(lambda job: _train(context, pace, job[0], arms[job[0]], job[1], middle), jobs))
    pairs = _whole_pairs(runs)
    wall_s = time.monotonic() - started_s
    baseline, candidate = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    tested = _tested(change, baseline, candidate, middle, len(seeds), wall_s, num_cores)
    verdicts = guard_training(tested, change.effect, context.job.limits)
    tested = tested.model_copy(update={"verdicts": verdicts})
    context.record(tested)
    for verdict in tested.verdicts:
        context.progress.say(f"reward: {verdict.guard} {verdict.judgement}: {verdict.because}")
    return tested


def num_beside(context: Context, arms: Sequence[Settings]) -> int:
    """Return how many runs may be up at once: one a core, as far as they have room."""
    num_cores = context.job.devices.num_cores
    fits = (n for n in range(num_cores, 1, -1) if not any(too_large_together(context, [arm] * n) for arm in arms))
    return next(fits, 1)


def _whole_pairs(
    runs: Sequence[TrainedRun | TrialError | BudgetSpentError],
) -> list[tuple[TrainedRun | TrialError, TrainedRun | TrialError]]:
    """Return (baseline, candidate) of every seed that the budget let end.

    What the budget cut off says nothing of the change and leaves a test of fewer pairs; a run that died stays.
    """
    return [
        (baseline, candidate)
        for baseline, candidate in zip(runs[::2], runs[1::2], strict=True)
        if not isinstance(baseline, BudgetSpentError) and not isinstance(candidate, BudgetSpentError)
    ]


def skip_reward_test(context: Context, change: Change, why: str) -> None:
    """Record that the test was owed but not run: INCONCLUSIVE in all that it would have answered, never PASS."""
    limit = f"{context.job.guard.reward_seeds} paired runs of {context.job.guard.reward_steps} steps"
    verdicts = tuple(
        Verdict(guard=guard, judgement=Judgement.INCONCLUSIVE, limit=limit, because=why)
        for guard in OWED_OF_TRAINING[change.effect]
    )
    empty = dict.fromkeys(("start_S", "baseline_S", "candidate_S", "baseline_truncated_S", "candidate_truncated_S"), ())
    context.record(
        RewardTested(signature=change.signature, verdicts=verdicts, cost_wall_s=0.0, cost_device_s=0.0, **empty)
    )
    context.progress.say(f"reward: not tested: {why}")


def _equal_time_step(context: Context, change: Change) -> int | None:
    """Return where the baseline is to be measured: nowhere for a change that is not stale, not faster or not timed."""
    ended = [event for event in context.state.ended if event.trial.change.signature == change.signature]
    ratio = next((event.ratio_to_baseline for event in reversed(ended) if event.ratio_to_baseline is not None), None)
    if ratio is None or REWARD_RATE not in OWED_OF_TRAINING[change.effect]:
        return None
    step = equal_time_step(context.job.guard.reward_steps, ratio.value)  # in the objective: devices count where they do
    return step if step < context.job.guard.reward_steps else None


def _train(
    context: Context, pace: Pace, label: str, settings: Settings, seed: int, middle: int | None
) -> TrainedRun | TrialError | BudgetSpentError:
    spec = LaunchSpec(settings=dict(settings), seed=seed, is_untimed=True)
    begun_s = context.budget.clock()
    needed_s, left_s = pace.run_s(label), context.budget.stage_left_s()
    if left_s < needed_s:
        context.progress.say(
            f"reward: {label}, seed {seed} not begun: {left_s:.0f} s of its share left, about {needed_s:.0f} needed"
        )
        return BudgetSpentError(f"the test's share has {left_s:.0f} s left, the run needs about {needed_s:.0f} s")
    try:
        run = once_more(
            lambda: _trained(context, spec, f"{label}-{seed}", middle if label == "baseline" else None),
            context.progress.say,
        )
    except BudgetSpentError as error:
        context.progress.say(f"reward: {label}, seed {seed} cut off: {error}")
        return error
    except (TrialError, MemoryError) as error:
        context.progress.say(f"reward: {label}, seed {seed} died: {error}")
        return TrialError(str(error))
    pace.saw(label, context.budget.clock() - begun_s)
    context.progress.say(f"reward: {label}, seed {seed}: {run.start.accuracy:.3f} to {run.end.accuracy:.3f}")
    return run


def _trained(context: Context, spec: LaunchSpec, name: str, middle: int | None) -> TrainedRun:
    session = context.framework.launch(context.job, spec, context.run_path("reward", name))
    try:
        start = _start_of(context, session)
        num_steps, before, steps = context.job.guard.reward_steps, None, list[Observation]()
        if middle is not None:
            steps += _run_steps(context, session, middle)
            num_steps, before = num_steps - middle, session.evaluate()
        steps += _run_steps(context, session, num_steps)
        _check_share(context, "before the last evaluation")
        end = session.evaluate()
    finally:
        session.close()
    k3 = tuple(s.mismatch.k3 for s in steps if s.mismatch is not None)
    return TrainedRun(start=start, middle=before, end=end, k3=k3)


def _run_steps(context: Context, session: Session, num_steps: int) -> list[Observation]:
    """Run steps one by one, so that the test's share ends a run of dozens after the step that was running.

    Raises:
        BudgetSpentError: it has ended.
    """
    steps: list[Observation] = []
    for number in range(num_steps):
        _check_share(context, f"after step {number} of {num_steps}")
        steps += session.run_steps(1)
    return steps


def _check_share(context: Context, when: str) -> None:
    if context.budget.stage_left_s() <= 0:
        raise BudgetSpentError(f"its share of the budget ended {when}")


def _start_of(context: Context, session: Session) -> EvalResult:
    with context.start_lock:
        if context.start is None:
            context.start = session.evaluate()
        return context.start


def _tested(
    change: Change,
    baseline: Sequence[TrainedRun | TrialError],
    candidate: Sequence[TrainedRun | TrialError],
    middle: int | None,
    num_planned: int,
    wall_s: float,
    num_cores: int,
) -> RewardTested:
    """Return the test without its verdicts. A run that died has NaN for its ends, which no guard passes."""
    return RewardTested(
        signature=change.signature,
        num_planned=num_planned,
        start_S=tuple(_start(run) for run in baseline),
        baseline_S=tuple(_end(run) for run in baseline),
        candidate_S=tuple(_end(run) for run in candidate),
        equal_time_step=middle,
        baseline_equal_S=() if middle is None else tuple(_middle(run) for run in baseline),
        baseline_truncated_S=tuple(_truncated(run) for run in baseline),
        candidate_truncated_S=tuple(_truncated(run) for run in candidate),
        baseline_len_S=tuple(_length(run) for run in baseline),
        candidate_len_S=tuple(_length(run) for run in candidate),
        baseline_k3_SK=tuple(_k3(run) for run in baseline),
        candidate_k3_SK=tuple(_k3(run) for run in candidate),
        verdicts=(),
        cost_wall_s=wall_s,
        cost_device_s=wall_s * num_cores,
    )


NAN = float("nan")
"""What a run that died contributes."""


def _start(run: TrainedRun | TrialError) -> float:
    return run.start.accuracy if isinstance(run, TrainedRun) else NAN


def _middle(run: TrainedRun | TrialError) -> float:
    return run.middle.accuracy if isinstance(run, TrainedRun) and run.middle is not None else NAN


def _end(run: TrainedRun | TrialError) -> float:
    return run.end.accuracy if isinstance(run, TrainedRun) else NAN


def _k3(run: TrainedRun | TrialError) -> tuple[float, ...]:
    return run.k3 if isinstance(run, TrainedRun) else ()


def _truncated(run: TrainedRun | TrialError) -> float:
    return run.end.truncated_frac if isinstance(run, TrainedRun) else NAN


def _length(run: TrainedRun | TrialError) -> float:
    return run.end.completion_len_mean if isinstance(run, TrainedRun) else NAN
