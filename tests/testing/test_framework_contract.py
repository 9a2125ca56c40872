from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from steptune.core.framework import LaunchSpec, Lever, ParityInput, ParityOutput
from steptune.core.job import JobSpec, LimitsSpec
from steptune.core.knob import KnobSpec, Settings
from steptune.core.profile import Lengths, SampledLengths
from steptune.core.trial import Observation
from steptune.core.work import PlannedWork
from steptune.testing.fake_framework import FakeFramework, FakeSession
from steptune.testing.fake_space import (
    COMPACTION,
    CORRECTION,
    HALVED_GRADIENT,
    LEAKY_DTYPE,
    PACKING,
    SCHEDULE,
    FakeKnob,
)
from steptune.testing.framework_contract import CHECKS, LIVE_CHECKS, Check, Subject

JOB = JobSpec(name="fake", framework="fake", limits=LimitsSpec(max_staleness=1, allow_corrections=True))

SPACES = {
    "default": (PACKING, COMPACTION),
    "async": (PACKING, COMPACTION, SCHEDULE, CORRECTION),
    "traps": (LEAKY_DTYPE, HALVED_GRADIENT),
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("check", [*CHECKS.values(), *LIVE_CHECKS.values()], ids=lambda check: check.__name__)
def test_the_fake_framework_keeps_the_contract(check: Check, space: str, tmp_path: Path) -> None:
    check(Subject(framework=FakeFramework(knob_table=SPACES[space]), job=JOB, folder=tmp_path))


class Liar:
    """A fake framework that breaks its word in one place; everything else is passed on."""

    def __init__(self, **lies: Callable[..., object]) -> None:
        self._honest = FakeFramework(knob_table=(PACKING, COMPACTION))
        self._lies = lies

    def __getattr__(self, name: str) -> object:
        lie = self._lies.get(name)
        honest = getattr(self._honest, name)
        return honest if lie is None else lambda *args, **kwargs: lie(honest, *args, **kwargs)


class LyingSession:
    """A run whose observations or lengths are changed on the way."""

    def __init__(
        self,
        session: FakeSession,
        step: Callable[[Observation], Observation] = lambda step: step,
        lengths: Callable[[SampledLengths], SampledLengths] = lambda lengths: lengths,
    ) -> None:
        self._session, self._step, self._lengths = session, step, lengths
        self.evaluate = session.evaluate
        self.close = session.close

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        return [self._step(step) for step in self._session.run_steps(num_steps, rehearse_s=rehearse_s)]

    def lengths(self) -> SampledLengths:
        return self._lengths(self._session.lengths())


def launching(**lies: Callable[..., object]) -> Callable[..., object]:
    return lambda honest, *args: LyingSession(honest(*args), **lies)  # type: ignore[arg-type]


def changing_step(**update: object) -> Callable[..., object]:
    return launching(step=lambda step: step.model_copy(update=update))


def two_layouts(honest: Callable[..., tuple[KnobSpec, ...]], job: JobSpec) -> tuple[KnobSpec, ...]:
    knobs = honest(job)
    return (*knobs, knobs[0])


def forgets_a_lever(honest: Callable[..., tuple[Lever, ...]], job: JobSpec, kind: str) -> tuple[Lever, ...]:
    return honest(job, kind)[1:]


def ignores_pins(honest: Callable[..., tuple[Lever, ...]], job: JobSpec, kind: str) -> tuple[Lever, ...]:
    return honest(JOB, kind)


def counts_calls(honest: Callable[..., PlannedWork], job: JobSpec, settings: Settings, lengths: Lengths) -> PlannedWork:
    counts_calls.calls += 1  # type: ignore[attr-defined]
    work = honest(job, settings, lengths)
    return work.model_copy(update={"memory_bytes": work.memory_bytes + counts_calls.calls})  # type: ignore[attr-defined]


counts_calls.calls = 0  # type: ignore[attr-defined]


def pads_to_less(honest: Callable[..., PlannedWork], *args: object) -> PlannedWork:
    return honest(*args).model_copy(update={"padded_tokens": 1.0})


def moves_on_replay(
    honest: Callable[..., list[ParityOutput]], job: JobSpec, inputs: list[ParityInput], out: Path
) -> list[ParityOutput]:
    first, *others = honest(job, inputs, out)
    return [first, *(other.model_copy(update={"distance_to_first": 0.1}) for other in others)]


def ignores_force(honest: Callable[..., FakeSession], job: JobSpec, spec: LaunchSpec, out: Path) -> object:
    longer = spec.forced_lengths is not None
    return LyingSession(
        honest(job, spec, out),
        lengths=lambda n: n.model_copy(update={"completion": tuple(c + longer for c in n.completion)}),
    )


@pytest.mark.parametrize(
    ("check", "lies"),
    [
        ("its_knobs_are_well_formed", {"knobs": two_layouts}),
        ("every_baseline_sets_every_knob_once_and_can_run", {"baseline": forgets_a_lever}),
        ("every_baseline_sets_every_knob_once_and_can_run", {"conflicts": lambda *_: ("no",)}),
        ("pins_hold_in_every_baseline", {"baseline": ignores_pins}),
        ("conflicts_and_work_are_pure_and_repeatable", {"planned_work": counts_calls}),
        ("planned_work_is_countable", {"planned_work": pads_to_less}),
        ("rendering_names_every_knob_and_tells_configurations_apart", {"render": lambda *_: "layout"}),
        (
            "rendering_names_every_knob_and_tells_configurations_apart",
            {"render": lambda *_: "layout compact_finished"},
        ),
        ("a_run_gives_steps_lengths_and_accuracy", {"launch": changing_step(step=7)}),
        ("a_run_gives_steps_lengths_and_accuracy", {"launch": changing_step(step_time_s=float("nan"))}),
        ("a_run_gives_steps_lengths_and_accuracy", {"launch": changing_step(completion_tokens=0)}),
        (
            "a_run_gives_steps_lengths_and_accuracy",
            {"launch": launching(lengths=lambda n: n.model_copy(update={"prompt": n.prompt[1:]}))},
        ),
        (
            "observations_conserve_each_role_s_time",
            {"launch": changing_step(wall_by_role_s={"trainer": 0.5, "rollout": 0.5})},
        ),
        (
            "observations_conserve_each_role_s_time",
            {"launch": changing_step(wall_by_role_s={"trainer": 2.0, "rollout": 2.0})},
        ),
        ("observations_conserve_each_role_s_time", {"launch": changing_step(spans=())}),
        ("forced_lengths_are_obeyed", {"launch": ignores_force}),
        ("a_replay_is_at_no_distance_from_itself", {"replay_updates": moves_on_replay}),
    ],
)
def test_a_framework_that_contradicts_itself_is_caught(
    check: str, lies: dict[str, Callable[..., object]], tmp_path: Path
) -> None:
    subject = Subject(framework=Liar(**lies), job=JOB, folder=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        {**CHECKS, **LIVE_CHECKS}[check](subject)


def test_a_child_longer_than_its_parent_is_caught(tmp_path: Path) -> None:
    def lengthen(step: Observation) -> Observation:
        parent = next(span for span in step.spans if span.kind == "busy" and span.role == "rollout")
        child = parent.model_copy(update={"phase": "rollout/decode", "seconds": parent.seconds + 0.1})
        return step.model_copy(update={"spans": (*step.spans, child)})

    subject = Subject(framework=Liar(launch=launching(step=lengthen)), job=JOB, folder=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="children of `rollout`"):
        LIVE_CHECKS["observations_conserve_each_role_s_time"](subject)


def test_a_knob_of_the_algorithm_is_caught(tmp_path: Path) -> None:
    from steptune.core.knob import Effect

    knob: FakeKnob = replace(PACKING, effect=Effect.ALGORITHM)
    subject = Subject(framework=FakeFramework(knob_table=(knob,)), job=JOB, folder=tmp_path)
    with pytest.raises(AssertionError, match="touches the algorithm"):
        CHECKS["its_knobs_are_well_formed"](subject)
