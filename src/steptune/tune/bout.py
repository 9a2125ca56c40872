"""How a trial's two arms are run: in turn beside each other, the candidate alone, or launched alternately.

::

    forecast peaks do not fit together? ---------------------------> alternate launches
    both up, in turn --> out of memory --> incumbent holds little? -> the candidate's fault
                                       '-> alternate launches: the candidate by itself first: its fault, or the pair's

The surprise: a run that waits for a later trial is an arm as well. Where the candidate alone is to be run and does not
fit, waiting runs are ended and it is run again.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import final

from steptune.core.change import Change
from steptune.core.framework import Session
from steptune.core.knob import KnobValue
from steptune.core.trial import Trial, TrialState
from steptune.stats.looks import TRIAL_LOOKS
from steptune.stats.noise import worth_frac
from steptune.trial.alternate import Contest, OneAtATime, run_alternately
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan, Pair, RunsSteps
from steptune.trial.clear_lead import ClearLead
from steptune.trial.recorded import Recorded
from steptune.trial.run import Evidence, run_trial
from steptune.tune.context import Context, trial_spec
from steptune.tune.far_gain import far_lead, steps_watched
from steptune.tune.gather import alternate_plan
from steptune.tune.room import may_be_crowded_out, too_large_together
from steptune.tune.step_guards import ages_of
from steptune.tune.stop_rule import StopRule


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Bout:
    """One attempt at a trial: ``Bout(context=..., number=3, change=..., incumbent=NOTHING, plan=TRIAL_PLAN)``."""

    context: Context
    number: int
    change: Change
    incumbent: Change
    plan: BlockPlan
    earlier: tuple[Pair, ...] = ()
    """Pairs of an earlier attempt, which the trial keeps."""

    @property
    def candidate_settings(self) -> dict[str, KnobValue]:
        """Whole configuration of the change."""
        return self.change.applied_to(self.context.baseline_settings)

    @property
    def incumbent_settings(self) -> dict[str, KnobValue]:
        """Whole configuration of what it is held against."""
        return self.incumbent.applied_to(self.context.baseline_settings)

    @property
    def devices_ratio(self) -> float:
        """See `core.trial.Trial`."""
        return self.context.weight(self.candidate_settings) / self.context.weight(self.incumbent_settings)

    @property
    def stop_rule(self) -> StopRule:
        """What ends it where it is lost."""
        return StopRule(
            limits=self.context.job.limits,
            own_lag=self.context.job.algorithm.num_updates - 1,
            noise=self.context.noise,
            max_looks=TRIAL_LOOKS.last - 1,
            devices_ratio=self.devices_ratio,
        )

    @property
    def num_watched(self) -> int:
        """Steps that guards must see of the candidate."""
        return steps_watched(self.change.effect, self.plan)


def run_bout(bout: Bout, known: Recorded | None = None) -> Trial:
    """Run the incumbent against the change and return the trial.

    With ``known``, steps of the incumbent that were run before, only the change is launched.

    Raises:
        KilledError: a run of either arm was killed from outside.
        BudgetSpentError: the budget ended before the candidate was launched.
    """
    context = bout.context
    folder = context.folder.new_trial_folder(bout.number, bout.change.signature)
    because = too_large_together(context, [bout.incumbent_settings, bout.candidate_settings])
    if known is not None:
        return _run_alone(bout, known, folder, has_room=not because)
    if not because:
        try:
            trial = _run_in_turn(bout, None, folder)
            if trial.state is not TrialState.OUT_OF_MEMORY or not may_be_crowded_out(
                context, [bout.incumbent_settings]
            ):
                return trial
            cause = trial.cause
        except MemoryError as error:  # of the incumbent, beside a run that waits
            cause = str(error)
        because = f"both arms together ran out of memory ({cause})"
    context.progress.say(f"trial {bout.number}: {because}; one arm at a time")
    return _run_in_alternation(bout, folder, because)


def _run_alone(bout: Bout, known: Recorded, folder: Path, *, has_room: bool) -> Trial:
    """Run the candidate beside recorded steps; where a waiting run may have crowded it out, again without."""
    context = bout.context
    if not has_room:
        context.runs.stop()
    is_crowded = context.runs.num_live > 0 and may_be_crowded_out(context, [bout.incumbent_settings])
    trial = _run_in_turn(bout, known, folder)
    if trial.state is not TrialState.OUT_OF_MEMORY or not is_crowded:
        return trial
    context.progress.say(f"trial {bout.number}: out of memory beside a run that waits ({trial.cause}); again without")
    context.runs.stop()
    known.skip_to(WARMUP_STEPS)
    return _run_in_turn(bout, known, folder / "alone")


def _run_in_turn(bout: Bout, known: Recorded | None, folder: Path) -> Trial:
    context = bout.context
    with ExitStack() as stack:
        evidence = Evidence(pairs=bout.earlier, ages=ages_of(context.job), skip_to=known.skip_to if known else None)
        session: RunsSteps | None = known
        if session is None:
            spec = trial_spec(context, bout.incumbent_settings)
            session = stack.enter_context(closing(context.runs.launch(context.job, spec, folder / "incumbent")))
            seen = tuple(session.warm_up(WARMUP_STEPS, evidence.ages))
            evidence = replace(evidence, warm_up=seen, skip_to=None if seen else session.skip_to)
        return run_trial(
            context.runs,
            context.job,
            trial_spec(context, bout.candidate_settings),
            number=bout.number,
            change=bout.change,
            incumbent=session,
            incumbent_signature=bout.incumbent.signature,
            plan=bout.plan,
            evidence=evidence,
            keep_going=bout.stop_rule,
            out_dir=folder / "candidate",
            devices_ratio=bout.devices_ratio,
            is_clear=_clear_lead(bout) if known is None else far_lead(context.noise, bout.devices_ratio),
            num_watched=bout.num_watched,
        )


def _run_in_alternation(bout: Bout, folder: Path, because: str) -> Trial:
    context, numbers = bout.context, count(1)
    context.runs.stop()

    def start(name: str, settings: dict[str, KnobValue]) -> Session:
        out_dir = folder / f"{name}-{next(numbers)}"
        return context.runs.launch_fresh(context.job, trial_spec(context, settings), out_dir)

    arms = OneAtATime(
        launch=(
            partial(start, "incumbent", bout.incumbent_settings),
            partial(start, "candidate", bout.candidate_settings),
        ),
        ages=ages_of(context.job),
    )
    return run_alternately(
        arms,
        Contest(
            number=bout.number,
            change=bout.change,
            incumbent_signature=bout.incumbent.signature,
            devices_ratio=bout.devices_ratio,
            num_cores=context.job.devices.num_cores,
            because=because,
        ),
        alternate_plan(bout.plan),
        earlier=bout.earlier,
        keep_going=bout.stop_rule,
        is_clear=_clear_lead(bout),
        num_watched=bout.num_watched,
    )


def _clear_lead(bout: Bout) -> Callable[[Sequence[Pair]], bool]:
    """Return what ends a trial that is won."""
    noise = bout.context.noise
    band = worth_frac(noise)
    if band is None:
        return lambda pairs: False
    return ClearLead(noise=noise, band_frac=band, devices_ratio=bout.devices_ratio)
