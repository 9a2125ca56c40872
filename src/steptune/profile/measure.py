"""Runs the baseline as its owner would: natural lengths, for health, lengths and the held-out starting point.

Step *times* of a profile do not come from here but from the A/A repeat, which is a trial of the baseline against
itself at forced lengths (see `tune`): its ratio shows what a trial reads when nothing was changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from steptune.core.errors import TrialError, explain
from steptune.core.framework import Framework, LaunchSpec
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.profile import SampledLengths
from steptune.core.trial import EvalResult, Observation

NATURAL_STEPS = 8
"""Naturally run baseline steps: at 256 rollouts each, 2,048 lengths."""

FIRST_STEPS = 2
"""Steps after which a job that is far too slow for its budget is known: the first of a run is no measure."""

CAPTURED_BATCHES = 4
"""Recorded rollout batches for the update-parity replay."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NaturalRun:
    """What a naturally run baseline leaves behind."""

    observations: tuple[Observation, ...]
    lengths: SampledLengths
    batches_dir: Path
    start: EvalResult
    """Held-out accuracy before any RL step."""
    evaluate_s: float
    """Seconds that measuring it took."""


def run_naturally(
    framework: Framework,
    job: JobSpec,
    settings: dict[str, KnobValue],
    out_dir: Path,
    *,
    clock: Callable[[], float],
    check: Callable[[Sequence[Observation]], None],
) -> NaturalRun:
    """Run the baseline for `NATURAL_STEPS` steps.

    Args:
        framework: what runs it.
        job: the job.
        settings: the baseline's.
        out_dir: folder of the run.
        clock: seconds.
        check: is given the first `FIRST_STEPS` steps and may refuse to go on by raising.

    Raises:
        TrialError: the baseline itself does not run.
    """
    spec = LaunchSpec(settings=settings, seed=job.algorithm.seed, capture_batches=CAPTURED_BATCHES)
    try:
        session = framework.launch(job, spec, out_dir)
        try:
            before_s = clock()
            start = session.evaluate()
            evaluate_s = clock() - before_s
            first = session.run_steps(FIRST_STEPS)
            check(first)
            observations = (*first, *session.run_steps(NATURAL_STEPS - FIRST_STEPS))
            lengths = session.lengths()
        finally:
            session.close()
    except MemoryError as error:
        raise TrialError(
            explain(
                "the baseline itself runs out of memory",
                got=str(error),
                allowed="a baseline that runs",
                hint="make the job smaller, or set `baseline` to one that needs less memory",
            )
        ) from error
    return NaturalRun(
        observations=observations,
        lengths=lengths,
        batches_dir=out_dir / "batches",
        start=start,
        evaluate_s=evaluate_s,
    )
