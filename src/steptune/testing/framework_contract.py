"""What every `core.framework.Framework` owes the stages, as checks to run against a real one.

::

    for check in CHECKS:                        # or parametrize a test over them
        check(Subject(framework=..., job=..., folder=tmp_path))

A check raises AssertionError with what was found. `LIVE_CHECKS` launch runs, so they cost what a run costs; the
others only ask. The surprise: a framework may be as slow or wrong as it likes, but it may not *contradict itself*,
for the tuner believes what it says about knobs, work and lengths without looking again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from steptune.core.framework import Framework, LaunchSpec, ParityInput
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, KnobValue
from steptune.core.phase import Role, SpanKind, is_child, parent_phase
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation
from steptune.core.work import IDLE_THREADS

BaselineKind = Literal["default", "best_practice", "expert"]

LENGTHS = SampledLengths(prompt=(8,) * 8, completion=(1, 2, 3, 4, 5, 6, 7, 8), rollouts_per_step=8)
"""Lengths to count work at, short enough for any job."""

ROUNDING_S = 1e-6
"""How far sums of float seconds may be apart."""

MAX_UNATTRIBUTED_FRAC = 0.03
"""Part of a role's wall time that no span may cover (issue: under 3 %)."""

BOOKKEEPING_S = 0.005
"""Seconds outside every span that are never held against a step: fixed, and visible only in a test's tiny steps."""

NUM_STEPS = 3
"""Steps of a live run: enough to show whether steps follow one another, and for one without an interruption."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A framework under test, with a job that it runs in seconds and whose rewards vary (else nothing is updated)."""

    framework: Framework
    job: JobSpec
    folder: Path
    """Empty; runs write under it."""

    def settings(self, kind: BaselineKind = "default") -> dict[str, KnobValue]:
        """Return a baseline's configuration."""
        return {lever.knob: lever.value for lever in self.framework.baseline(self.job, kind)}

    def spec(self, *, forced: SampledLengths | None = None, capture: int = 0) -> LaunchSpec:
        """Return how the default baseline is launched."""
        return LaunchSpec(settings=self.settings(), seed=1, forced_lengths=forced, capture_batches=capture)


Check = Callable[[Subject], None]


def it_has_a_name_a_version_and_memory(subject: Subject) -> None:
    """What goes into the run folder is there."""
    framework = subject.framework
    assert framework.name, "no name"
    assert framework.version(), "no version"
    assert framework.total_memory_bytes() > 0, f"{framework.total_memory_bytes()} bytes of memory"


def its_knobs_are_well_formed(subject: Subject) -> None:
    """Names are unique, every knob has values without repetition, none touches the algorithm."""
    knobs = subject.framework.knobs(subject.job)
    names = [knob.name for knob in knobs]
    assert names, "no knobs"
    assert len(set(names)) == len(names), f"a knob is listed twice: {names}"
    for knob in knobs:
        assert knob.values, f"`{knob.name}` has no values"
        assert len({repr(value) for value in knob.values}) == len(knob.values), f"`{knob.name}` repeats {knob.values}"
        assert knob.effect is not Effect.ALGORITHM, f"`{knob.name}` touches the algorithm"
        assert knob.what, f"`{knob.name}` says not what it does"


def every_baseline_sets_every_knob_once_and_can_run(subject: Subject) -> None:
    """Lever tables and knobs cover exactly the same names; a baseline has no conflict of its own."""
    knobs = {knob.name for knob in subject.framework.knobs(subject.job)}
    for kind in get_args(BaselineKind):
        levers = subject.framework.baseline(subject.job, kind)
        names = [lever.knob for lever in levers]
        assert sorted(names) == sorted(knobs), f"`{kind}` sets {sorted(names)}, knobs are {sorted(knobs)}"
        assert all(lever.why for lever in levers), f"`{kind}` has a lever without a reason"
        conflicts = subject.framework.conflicts(subject.job, subject.settings(kind))
        assert not conflicts, f"`{kind}` cannot run: {conflicts}"


def pins_hold_in_every_baseline(subject: Subject) -> None:
    """A pinned knob has the owner's value, whatever the table says."""
    for knob in subject.framework.knobs(subject.job):
        pinned = subject.job.knobs.model_copy(update={"pin": {knob.name: knob.values[-1]}})
        job = subject.job.model_copy(update={"knobs": pinned})
        for kind in get_args(BaselineKind):
            value = next(lever.value for lever in subject.framework.baseline(job, kind) if lever.knob == knob.name)
            assert value == knob.values[-1], f"`{kind}` sets `{knob.name}` to {value}, pinned is {knob.values[-1]}"


def conflicts_and_work_are_pure_and_repeatable(subject: Subject) -> None:
    """Asking twice gives the same answer and changes nothing, or a resumed session would plan something else."""
    framework, job = subject.framework, subject.job
    for settings in _neighbours(subject):
        before = dict(settings)
        assert framework.conflicts(job, settings) == framework.conflicts(job, settings), f"conflicts vary: {settings}"
        if framework.conflicts(job, settings):
            continue
        first, second = (framework.planned_work(job, settings, LENGTHS) for _ in range(2))
        assert first == second, f"planned work varies: {settings}"
        assert settings == before, "the settings were changed"


def planned_work_is_countable(subject: Subject) -> None:
    """Counts, sizes and memory are finite and not negative, phases are canonical, padding is no less than tokens."""
    for settings in _neighbours(subject):
        if subject.framework.conflicts(subject.job, settings):
            continue
        work = subject.framework.planned_work(subject.job, settings, LENGTHS)
        assert {item.role for item in work.items} >= {Role.TRAINER, Role.ROLLOUT}, f"a side has no work: {settings}"
        for item in work.items:
            parent_phase(item.phase)
            numbers = (item.x, item.count)
            assert all(math.isfinite(n) and n >= 0 for n in numbers), f"impossible item {item}"
            assert set(item.when) <= {*settings, IDLE_THREADS}, (
                f"`{item.curve}` depends on settings that are no knobs: {item.when}"
            )
        assert work.padded_tokens >= work.active_tokens > 0, f"{work.padded_tokens} of {work.active_tokens} positions"
        assert work.memory_bytes >= 0, f"{work.memory_bytes} bytes"
        assert min(work.trainer_cores, work.rollout_cores) > 0, "a side without a core"
        assert (work.lag > 0) == (work.schedule == "one_step_off"), f"lag {work.lag} under {work.schedule}"


def rendering_names_every_knob_and_tells_configurations_apart(subject: Subject) -> None:
    """What the user gets back holds the whole configuration."""
    framework, job, baseline = subject.framework, subject.job, subject.settings()
    text = framework.render(job, baseline)
    for name in baseline:
        assert name in text, f"`{name}` is not in the rendered configuration"
    for settings in _neighbours(subject):
        if settings != baseline:
            moved = {k: v for k, v in settings.items() if v != baseline[k]}
            assert framework.render(job, settings) != text, f"{moved} is rendered like the baseline"


def cleaning_up_after_nobody_does_nothing(subject: Subject) -> None:
    """A resume calls it on every run folder."""
    subject.framework.clean_up(subject.folder)


def a_run_gives_steps_lengths_and_accuracy(subject: Subject) -> None:
    """Steps follow one another, every count is possible, lengths are those of the steps run."""
    with closing(subject.framework.launch(subject.job, subject.spec(), subject.folder / "run")) as run:
        start = run.evaluate()
        assert 0 <= start.accuracy <= 1, f"accuracy {start.accuracy}"
        assert start.num_problems > 0, "no held-out problems"
        steps = [*run.run_steps(1), *run.run_steps(NUM_STEPS - 1)]
        lengths = run.lengths()
    assert [step.step for step in steps] == list(range(steps[0].step, steps[0].step + NUM_STEPS)), "steps out of order"
    versions = [step.weight_version for step in steps]
    assert all(a < b for a, b in pairwise(versions)), f"weight versions {versions}"
    for step in steps:
        _check_step(step)
    assert len(lengths.prompt) == len(lengths.completion) == NUM_STEPS * lengths.rollouts_per_step, (
        "lengths are missing"
    )
    assert min(lengths.completion) >= 1, "an empty completion"


def observations_conserve_each_role_s_time(subject: Subject) -> None:
    """Per role, spans cover the wall time, never more; a child lies inside its parent."""
    with closing(subject.framework.launch(subject.job, subject.spec(), subject.folder / "spans")) as run:
        steps = run.run_steps(NUM_STEPS)
    for step in steps:
        assert set(step.wall_by_role_s) >= {Role.TRAINER.value, Role.ROLLOUT.value}, f"roles {set(step.wall_by_role_s)}"
        for role, wall_s in step.wall_by_role_s.items():
            _check_role(step, role, wall_s)
    for role in steps[0].wall_by_role_s:
        _check_coverage(steps, role)


def forced_lengths_are_obeyed(subject: Subject) -> None:
    """Equal work in all arms of a trial rests on it."""
    framework, job = subject.framework, subject.job
    with closing(framework.launch(job, subject.spec(), subject.folder / "natural")) as run:
        run.run_steps(1)
        natural = run.lengths()
    with closing(framework.launch(job, subject.spec(forced=natural), subject.folder / "forced")) as run:
        run.run_steps(1)
        assert run.lengths() == natural, "a rollout did not stop at its forced length"


def a_rehearsal_moves_nothing(subject: Subject) -> None:
    """Arms of a trial rehearse for as long as they need and still do the same steps."""
    with closing(subject.framework.launch(subject.job, subject.spec(), subject.folder / "plain")) as run:
        plain = run.run_steps(NUM_STEPS)
    with closing(subject.framework.launch(subject.job, subject.spec(), subject.folder / "rehearsed")) as run:
        rehearsed = [*run.run_steps(1), *run.run_steps(NUM_STEPS - 1, rehearse_s=1e-3)]
    assert [_work_of(step) for step in rehearsed] == [_work_of(step) for step in plain], "a rehearsal left a trace"


def closing_twice_is_harmless(subject: Subject) -> None:
    """An error path may close a run that has closed itself."""
    run = subject.framework.launch(subject.job, subject.spec(), subject.folder / "closed")
    run.close()
    run.close()


def a_replay_is_at_no_distance_from_itself(subject: Subject) -> None:
    """The same trainer on the same batches ends at the same weights; a shuffled one is as good as there."""
    framework, job, settings = subject.framework, subject.job, subject.settings()
    out = subject.folder / "captured"
    with closing(framework.launch(job, subject.spec(capture=1), out)) as run:
        run.run_steps(1)
    batches = str(out / "batches")
    inputs = [
        ParityInput(settings=settings, batches_dir=batches),
        ParityInput(settings=settings, batches_dir=batches),
        ParityInput(settings=settings, batches_dir=batches, shuffle_seed=1),
    ]
    first, same, shuffled = framework.replay_updates(job, inputs, subject.folder / "replay")
    assert first.distance_to_first == 0, f"the first is {first.distance_to_first} from itself"
    assert same.distance_to_first == 0, f"the same replay ends {same.distance_to_first} away"
    assert same.grad_norms == first.grad_norms, "the same replay has other gradients"
    assert all(norm > 0 and math.isfinite(norm) for norm in first.grad_norms), f"gradient norms {first.grad_norms}"
    assert shuffled.distance_to_first is not None, "a shuffled replay has no distance"
    assert 0 <= shuffled.distance_to_first < 1, f"shuffling moves the update by {shuffled.distance_to_first}"
    if shuffled.distance_by_tensor:
        whole = math.hypot(*shuffled.distance_by_tensor.values())
        assert math.isclose(whole, shuffled.distance_to_first, rel_tol=1e-9), f"its tensors' distances make {whole}"


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        it_has_a_name_a_version_and_memory,
        its_knobs_are_well_formed,
        every_baseline_sets_every_knob_once_and_can_run,
        pins_hold_in_every_baseline,
        conflicts_and_work_are_pure_and_repeatable,
        planned_work_is_countable,
        rendering_names_every_knob_and_tells_configurations_apart,
        cleaning_up_after_nobody_does_nothing,
    )
}
"""Checks that launch nothing, by name."""

LIVE_CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        a_run_gives_steps_lengths_and_accuracy,
        observations_conserve_each_role_s_time,
        forced_lengths_are_obeyed,
        a_rehearsal_moves_nothing,
        closing_twice_is_harmless,
        a_replay_is_at_no_distance_from_itself,
    )
}
"""Checks that launch runs, by name."""


def _neighbours(subject: Subject) -> Sequence[dict[str, KnobValue]]:
    """Return the default baseline and everything one move away from it."""
    baseline = subject.settings()
    moved = [{**baseline, knob.name: v} for knob in subject.framework.knobs(subject.job) for v in knob.values]
    return [baseline, *moved]


def _check_step(step: Observation) -> None:
    assert math.isfinite(step.step_time_s), f"step time {step.step_time_s}"
    assert step.step_time_s > 0, f"step time {step.step_time_s}"
    assert min(step.num_rollouts, step.prompt_tokens, step.completion_tokens, step.decode_iterations) > 0, str(step)
    assert step.padded_tokens >= step.completion_tokens, f"{step.padded_tokens} positions trained"
    assert 0 <= step.completion_len_p50 <= step.completion_len_max, str(step)
    assert step.lag_max >= 0, f"lag {step.lag_max}"


def _work_of(step: Observation) -> tuple[object, ...]:
    """What must not depend on how often a step was rehearsed."""
    return step.step, step.prompt_tokens, step.completion_tokens, step.weight_version, step.reward_mean, step.grad_norm


def _check_coverage(steps: Sequence[Observation], role: str) -> None:
    """Code outside every span is outside in all steps; a busy machine's interruptions are not."""
    uncovered_s = [_uncovered_s(step, role) for step in steps]
    allowed_s = [max(BOOKKEEPING_S, MAX_UNATTRIBUTED_FRAC * step.wall_by_role_s[role]) for step in steps]
    assert any(s <= allowed for s, allowed in zip(uncovered_s, allowed_s, strict=True)), (
        f"{role}: {uncovered_s} s of every step's wall time are in no span"
    )


def _uncovered_s(step: Observation, role: str) -> float:
    mine = [span for span in step.spans if span.role == role and not is_child(span.phase)]
    return step.wall_by_role_s[role] - math.fsum(span.seconds for span in mine)


def _check_role(step: Observation, role: str, wall_s: float) -> None:
    mine = [span for span in step.spans if span.role == role]
    for span in mine:
        parent_phase(span.phase)
        SpanKind(span.kind)
        assert span.seconds >= 0, f"{span} runs backwards"
    covered_s = math.fsum(span.seconds for span in mine if not is_child(span.phase))
    assert covered_s <= wall_s + ROUNDING_S, f"step {step.step}: {role} spans {covered_s} s of {wall_s} s"
    for parent in {parent_phase(span.phase).value for span in mine if is_child(span.phase)}:
        outer_s = math.fsum(span.seconds for span in mine if span.phase == parent)
        inner_s = math.fsum(span.seconds for span in mine if span.phase.startswith(f"{parent}/"))
        assert inner_s <= outer_s + ROUNDING_S, (
            f"step {step.step}: children of `{parent}` take {inner_s} of {outer_s} s"
        )
