"""A framework that runs no process and knows its own optimum, so that the whole tuner runs in seconds.

It implements `core.framework.Framework` over a virtual clock: step times are made up from `fake_space`,
noise is seeded, nothing sleeps. What a real framework can do to a tuner, it can do: hide metrics, run out of
memory, die, report NaN, learn less, book time on the wrong side. `spent_s` is what all of it cost.
"""

import math
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, final

from steptune.core.errors import TrialError
from steptune.core.framework import LaunchSpec, Lever, ParityInput, ParityOutput, SideReplay, SideTimes
from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, Settings
from steptune.core.lag import CountedLag
from steptune.core.phase import Role
from steptune.core.profile import CostCurve, CurvePoint, Lengths, SampledLengths
from steptune.core.trial import EvalResult, Observation
from steptune.core.work import PlannedWork, WorkItem
from steptune.stats.sequential import is_settled
from steptune.testing.fake_space import (
    COMPACTION,
    PACKING,
    TRAIN_S,
    FakeKnob,
    FakePair,
    cores_of,
    is_one_step_off,
    memory_of,
    side_seconds,
)
from steptune.testing.fake_step import HEALTHY_K3, PEAK_BYTES, fake_gap, fake_observation

START_ACCURACY = 0.45
"""Held-out accuracy of the fake's SFT start."""

FINAL_GAIN = 0.2
"""Accuracy the fake gains in the long run; half of it in `HALF_LIFE_STEPS`."""

HALF_LIFE_STEPS = 15
"""Steps in which half of the remaining gain is made."""

REWARD_SD = 0.004
"""Seed-to-seed noise of the fake's final accuracy."""

LATE_SEEDS = 900
"""Seeds beyond the job's that no trial uses: a fault that waits for them meets the confirmation alone."""

SIDE_WARM_UPS = 2
"""Replayed steps of each arm of a one-sided replay that do not count."""

REPLAYED_UPDATES = 4
"""Updates that one parity replay costs, each as long as the baseline's."""

MEMORY_BYTES = 10**10
"""Memory of the fake machine."""


@final
@dataclass(kw_only=True, slots=True)
class FakeFramework:
    """See the module docstring. ``on_step`` is called at every virtual step: tests use it to kill or to count."""

    knob_table: tuple[FakeKnob, ...] = (PACKING, COMPACTION)
    noise: float = 0.01
    """Standard deviation of log step time."""
    launch_noise: float = 0.0
    """Standard deviation of what all steps of a launch share."""
    seed: int = 1
    on_step: Callable[[], None] = lambda: None
    learns: bool = True
    """Whether rewards vary at all."""
    pairs: tuple[FakePair, ...] = ()
    """What the machine does beyond the factors."""
    start_up_s: float = 0.0
    """Virtual seconds of a launch."""
    misbooked_frac: float = 0.0
    """Part of the rollout's time that every synchronous run's spans show as training: a wrong bottleneck."""
    sides: frozenset[Role] = frozenset()
    """Sides of a step that can be replayed alone."""
    keeps_worker: bool = False
    """Whether the process that probes costs stays up for replays, until a replay kills it."""
    has_worker: bool = False
    launches: int = 0
    spent_s: float = 0.0
    """Virtual seconds so far: start-ups, steps, rehearsals and replays."""
    spent_on: dict[str, float] = field(default_factory=dict[str, float])
    """The same by what they went to."""
    live: dict[int, "FakeSession"] = field(default_factory=dict[int, "FakeSession"])
    """Runs that are up, by number: their peaks together must fit into the machine."""
    orders_end_s: float = math.inf
    """Virtual second at which a probe or a replay of updates is stopped."""
    name: str = "fake"

    def version(self) -> str:
        """Fixed."""
        return "1"

    def knobs(self, job: JobSpec) -> tuple[KnobSpec, ...]:
        """Every knob of the table."""
        return tuple(knob.spec() for knob in self.knob_table)

    def baseline(self, job: JobSpec, kind: Literal["default", "best_practice", "expert"]) -> tuple[Lever, ...]:
        """The first value of every knob."""
        pinned = job.knobs.pin
        return tuple(
            Lever(knob=k.name, value=pinned.get(k.name, next(iter(k.factors))), why="first value of the fake knob")
            for k in self.knob_table
        )

    def conflicts(self, job: JobSpec, settings: Settings) -> tuple[str, ...]:
        """Only staleness is ever in the way: it needs the owner's leave, and a correction, which needs it too."""
        is_off, is_corrected = is_one_step_off(settings), settings.get("correction", "none") != "none"
        reasons = (
            (f"limits.max_staleness is {job.limits.max_staleness}", is_off and job.limits.max_staleness < 1),
            ("limits.allow_corrections is false", is_corrected and not job.limits.allow_corrections),
            ("one_step_off and a correction only go together", is_off != is_corrected),
        )
        return tuple(reason for reason, is_broken in reasons if is_broken)

    def planned_work(self, job: JobSpec, settings: Settings, lengths: Lengths) -> PlannedWork:
        """One item per side, of as many seconds as the machine is believed to take."""
        rollout_s, train_s = side_seconds(self.knob_table, settings, believed=True)
        unpriced = {k.side for k in self.knob_table if settings[k.name] in k.unpriced}
        curve = {side: "never probed" if side in unpriced else "second" for side in (Role.ROLLOUT, Role.TRAINER)}
        is_off = is_one_step_off(settings)
        return PlannedWork(
            items=(
                WorkItem(role=Role.ROLLOUT, phase="rollout", curve=curve[Role.ROLLOUT], when={}, x=1, count=rollout_s),
                WorkItem(role=Role.TRAINER, phase="train", curve=curve[Role.TRAINER], when={}, x=1, count=train_s),
            ),
            schedule="one_step_off" if is_off else "sync",
            lag=int(is_off),
            ages=CountedLag(shares=((int(is_off), 1.0),)),
            trainer_cores=cores_of(self.knob_table, settings),
            rollout_cores=cores_of(self.knob_table, settings),
            memory_bytes=1e6 + memory_of([k for k in self.knob_table if k.is_memory_known], settings),
            padded_tokens=100,
            active_tokens=100,
        )

    def probe_costs(self, job: JobSpec, out_dir: Path) -> tuple[CostCurve, ...]:
        """The one price there is: a second takes a second."""
        self.has_worker = self.keeps_worker
        return (CostCurve(name="second", when={}, unit="1", points=(CurvePoint(x=1, seconds=1.0),)),)

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> "FakeSession":
        """Start a fake run, or fail as the settings demand."""
        self.launches += 1
        self.spend("start-up", self.start_up_s)
        out_dir.mkdir(parents=True, exist_ok=True)
        (out_dir / "spec.json").write_text(spec.model_dump_json() + "\n", encoding="utf-8")
        self.refuse(spec.settings, is_late=_is_late(job, spec))
        needed = sum(map(self.peak_bytes, (spec.settings, *(run.spec.settings for run in list(self.live.values())))))
        if needed > MEMORY_BYTES:
            raise MemoryError(f"fake: {len(self.live) + 1} runs need {needed / 1e9:.1f} GB")
        session = FakeSession(framework=self, job=job, spec=spec, number=self.launches)
        self.live[session.number] = session
        return session

    def peak_bytes(self, settings: Settings) -> int:
        """Peak memory of a run."""
        return PEAK_BYTES + memory_of(self.knob_table, settings)

    def spend(self, what: str, seconds: float) -> None:
        """Let virtual time pass."""
        self.spent_s += seconds
        self.spent_on[what] = self.spent_on.get(what, 0.0) + seconds

    @contextmanager
    def orders_within(self, seconds: float) -> Generator[None]:
        """Stop what takes longer than the virtual clock allows."""
        before_s, self.orders_end_s = self.orders_end_s, self.spent_s + seconds
        try:
            yield
        finally:
            self.orders_end_s = before_s

    def order(self, what: str, seconds: float) -> None:
        """Let virtual time pass for offline work, or stop it where its time is up."""
        allowed_s = self.orders_end_s - self.spent_s
        self.spend(what, min(seconds, allowed_s))
        if seconds > allowed_s:
            raise TrialError(f"`{what}` was stopped, it takes too long")

    def refuse(self, settings: Settings, *, is_late: bool = False) -> None:
        """Fail as these settings demand of a run that begins to use them."""
        for knob in self.knob_table:
            value = settings[knob.name]
            failure = knob.fails_with.get(value) if is_late or value not in knob.fails_late else None
            if failure == "oom":
                raise MemoryError("fake: asked for 3.0 GiB, 1.0 GiB free")
            if failure == "crash":
                raise TrialError("the run died with exit code -11")

    def replay_updates(self, job: JobSpec, parity: Sequence[ParityInput], out_dir: Path) -> list[ParityOutput]:
        """Distances come from the table; shuffling gives a tiny band."""
        self.order("update parity", len(parity) * REPLAYED_UPDATES * TRAIN_S)
        places = [self._place(item) for item in parity]
        return [
            ParityOutput(
                params_path="",
                probe_logprobs=(-1.0,),
                grad_norms=(1.0, 1.0),
                param_delta_norm=1.0,
                distance_to_first=abs(place - places[0]),
                distance_by_tensor={"head": abs(place - places[0]), "body": 0.0},
            )
            for place in places
        ]

    def replayable_sides(self, job: JobSpec, settings: Settings) -> frozenset[Role]:
        """Those of the field."""
        return self.sides

    def is_ready_to_replay(self) -> bool:
        """Whether the worker is up."""
        return self.has_worker

    def replay_side(self, job: JobSpec, wanted: SideReplay, out_dir: Path) -> SideTimes:
        """Make up the times of one side, which cost themselves and, without a worker, a start-up.

        An arm may fail as at a launch.
        """
        self.spend("replay's start-up", 0.0 if self.has_worker else self.start_up_s)
        self.has_worker = False
        for settings in (wanted.incumbent, wanted.candidate):
            self.refuse(settings)
        self.has_worker = self.keeps_worker
        begun_s, place = self.spent_s, (Role.ROLLOUT, Role.TRAINER).index(wanted.side)
        exact = [side_seconds(self.knob_table, s, self.pairs)[place] for s in (wanted.incumbent, wanted.candidate)]
        rng, pairs = random.Random(f"{self.seed} side {self.spent_s}"), list[tuple[float, float]]()
        for index in range(SIDE_WARM_UPS + wanted.looks[-1]):
            is_late = self.spent_s - begun_s >= wanted.max_s
            if is_late or is_settled(pairs, line=wanted.line, looks=wanted.looks, known=wanted.spread):
                break
            self.on_step()
            seconds = [s * math.exp(rng.gauss(0, self.noise)) for s in exact]
            self.spend("replay", sum(seconds))
            if index >= SIDE_WARM_UPS:
                pairs.append((seconds[0], seconds[1]))
        return SideTimes(incumbent_s=tuple(a for a, _ in pairs), candidate_s=tuple(b for _, b in pairs))

    def _place(self, item: ParityInput) -> float:
        """Where a replay ends, on a line."""
        rounding = 0.0 if item.shuffle_seed is None else 1e-6 * (1 + item.shuffle_seed % 3)
        return rounding + sum(k.parity_distance.get(item.settings[k.name], 0.0) for k in self.knob_table)

    def render(self, job: JobSpec, settings: Settings) -> str:
        """One line per knob."""
        return "".join(f"{name} = {value!r}\n" for name, value in sorted(settings.items()))

    def clean_up(self, run_folder: Path) -> None:
        """There is never a process to stop."""

    def total_memory_bytes(self) -> int:
        """Plenty."""
        return MEMORY_BYTES


@final
@dataclass(kw_only=True, slots=True)
class FakeSession:
    """A fake run."""

    framework: FakeFramework
    job: JobSpec
    spec: LaunchSpec
    number: int
    step: int = 0
    """Steps so far."""
    counted: dict[str, int] = field(default_factory=dict[str, int])
    """Steps by configuration since the start or the last rewind: every configuration counts its own."""
    closed: bool = False

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Make up ``num_steps`` observations; there is no cache that a rehearsal could warm, but its time is spent."""
        made = [self._one_step() for _ in range(num_steps)]
        if rehearse_s > 0:
            num_steps = max(1, math.ceil(rehearse_s / made[0].step_time_s))
            self.framework.spend("rehearsal", made[0].step_time_s * num_steps)
        return made

    def rewind(self) -> None:
        """Count from the first step again; every step does the same work."""
        self.counted.clear()

    def skip_to(self, step: int) -> None:
        """Count this configuration's steps from ``step`` on."""
        self.counted[_name_of(self.spec.settings)] = step

    def take_settings(self, settings: Settings) -> None:
        """Turn hot knobs, or fail as a launch would."""
        self.framework.refuse(settings)
        self.spec = self.spec.model_copy(update={"settings": dict(settings)})

    def evaluate(self) -> EvalResult:
        """Accuracy follows a saturating curve, less what the settings cost."""
        rng = random.Random(f"{self.framework.seed} {self.spec.seed} {sorted(self.spec.settings.items(), key=str)}")
        drop = sum(k.reward_drop.get(self.spec.settings[k.name], 0.0) for k in self.framework.knob_table)
        progress = 1 - 0.5 ** (self.step / HALF_LIFE_STEPS)
        accuracy = START_ACCURACY + (FINAL_GAIN - drop) * progress + (rng.gauss(0, REWARD_SD) if self.step else 0.0)
        return EvalResult(
            step=self.step,
            accuracy=accuracy if self.framework.learns else START_ACCURACY,
            num_problems=2000,
            truncated_frac=0.01,
            completion_len_mean=12.0,
        )

    def lengths(self) -> SampledLengths:
        """Four rollouts a step, lengths 4 to 16."""
        steps = max(1, self.step)
        return SampledLengths(prompt=(8,) * 4 * steps, completion=(4, 8, 12, 16) * steps, rollouts_per_step=4)

    def close(self) -> None:
        """Give its memory back."""
        self.closed = True
        self.framework.live.pop(self.number, None)

    def _one_step(self) -> Observation:
        self.framework.on_step()
        rng = random.Random(f"{self.framework.seed} {self.number} {self.step}")
        shared = random.Random(f"{self.framework.seed} launch {self.number}").gauss(0, self.framework.launch_noise)
        noise = math.exp(rng.gauss(0, self.framework.noise) + shared)
        settings, knobs = self.spec.settings, self.framework.knob_table
        rollout_s, train_s = (noise * s for s in side_seconds(knobs, settings, self.framework.pairs))
        hidden = any(settings[k.name] in k.hides_metrics for k in knobs)
        unseen = any(settings[k.name] in k.hides_arrivals for k in knobs)
        broken = any(k.fails_with.get(settings[k.name]) == "nan" for k in knobs)
        is_natural = self.spec.forced_lengths is None
        shorter = math.prod(k.shortens.get(settings[k.name], 1.0) for k in knobs) if is_natural else 1.0
        is_lost = _is_late(self.job, self.spec) and any(settings[k.name] in k.unhanded for k in knobs)
        k3 = max([HEALTHY_K3, *(k.mismatch_k3.get(settings[k.name], 0.0) for k in knobs)])
        self.step += 1
        name = _name_of(settings)
        self.counted[name] = self.counted.get(name, 0) + 1
        is_off = is_one_step_off(settings)
        moved_s = 0.0 if is_off else rollout_s * self.framework.misbooked_frac
        plain = fake_observation(self.counted[name] - 1, rollout_s - moved_s, train_s + moved_s, is_off)
        self.framework.spend("steps", plain.step_time_s)
        update: dict[str, object] = {
            "memory_peak_bytes": self.framework.peak_bytes(settings),
            "mismatch": None if hidden else fake_gap(k3),
            "arrivals": ()
            if unseen
            else tuple(a.model_copy(update={"num_wrong": int(is_lost)}) for a in plain.arrivals),
            "completion_tokens": round(plain.completion_tokens * shorter),
            "mixed_groups_frac": 0.6 if self.framework.learns else 0.0,
            **({"grad_norm": math.nan, "loss": math.nan} if broken else {}),
        }
        return plain.model_copy(update=update)


def _is_late(job: JobSpec, spec: LaunchSpec) -> bool:
    return spec.seed > job.algorithm.seed + LATE_SEEDS


def _name_of(settings: Settings) -> str:
    return str(sorted(settings.items(), key=str))
