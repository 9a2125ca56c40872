"""A pre-measured table of the embedded engine's configurations, and the table as a framework that the tuner can search.

Knobs, conflicts, planned work and prices are the engine's own; step times are those of the table, drawn again with the
spread that was measured. What is not in the table cannot run. The surprise: forecasts err here as they really do, so no
error is made up.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, final

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.core.framework import LaunchSpec, Lever, ParityInput, ParityOutput
from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, KnobValue, Settings
from steptune.core.profile import CostCurve, Lengths, SampledLengths
from steptune.core.records import Record, canonical_json
from steptune.core.trial import EvalResult, Observation
from steptune.core.work import PlannedWork
from steptune.testing.arrivals import whole_arrival

LAUNCH_SD = 0.01
"""Standard deviation between launches that is added: the table has one launch a configuration."""
REPLAYED_UPDATES = 4


class Row(Record):
    """One configuration: ``Row(settings={...}, steps_s=(0.41, 0.44), base_s=0.82, last=...)``."""

    settings: dict[str, KnobValue]
    steps_s: tuple[float, ...]
    """Every counted step."""
    base_s: float
    """Mean step of the baseline at the last look before it: the machine drifts."""
    last: Observation
    """Its last step, for spans, tokens and gaps."""

    @property
    def mean_s(self) -> float:
        """Mean step time in seconds."""
        return sum(self.steps_s) / len(self.steps_s)

    @property
    def ratio(self) -> float:
        """Its mean step / the baseline's."""
        return self.mean_s / self.base_s


class Again(Record):
    """A configuration measured again beside the baseline: ``Again(settings={...}, ratio=0.52, num_steps=30)``."""

    settings: dict[str, KnobValue]
    ratio: float
    """Its mean step / the baseline's in the same rounds."""
    num_steps: int


class Lost(Record):
    """A configuration that could not be timed: ``Lost(settings={...}, why="TrialError: ...")``."""

    settings: dict[str, KnobValue]
    why: str


class Regime(Record):
    """One job's table."""

    job: JobSpec
    lengths: SampledLengths
    natural: tuple[Observation, ...] = ()
    start: EvalResult | None = None
    costs: tuple[CostCurve, ...] = ()
    start_up_s: float = 0.0
    """Of a run in a process of its own, its first step not included."""
    rows: tuple[Row, ...] = ()
    """The baseline first."""
    lost: tuple[Lost, ...] = ()
    again: tuple[Again, ...] = ()


class Pending(Record):
    """A configuration whose timing began: ``Pending(settings={...}, num_starts=1)``."""

    settings: dict[str, KnobValue]
    num_starts: int


class Table(Record):
    """`bench/results/search_table.json`."""

    date: str
    machine: str
    regimes: dict[str, Regime]
    pending: Pending | None = None
    """What was being timed; still there at the next start, it did not end."""


def key_of(settings: Settings) -> str:
    """Return what tells configurations apart, True and 1 included."""
    return "; ".join(f"{knob}={value!r}" for knob, value in sorted(settings.items()))


@final
@dataclass(kw_only=True, slots=True)
class TableFramework:
    """Implements `core.framework.Framework` over one regime of the table."""

    regime: Regime
    seed: int
    engine: EmbeddedFramework
    spent_s: float = 0.0
    launches: int = 0
    name: str = "embedded"
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    again: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.rows = {key_of(row.settings): row for row in self.regime.rows}
        self.again = {key_of(each.settings): each.ratio for each in self.regime.again}

    def true_ratio(self, settings: Settings) -> float:
        """Return step time / the baseline's: as measured again, or else the one reading."""
        key = key_of(settings)
        return self.again.get(key, self.rows[key].ratio)

    def version(self) -> str:
        """The engine's."""
        return self.engine.version()

    def knobs(self, job: JobSpec) -> tuple[KnobSpec, ...]:
        """The engine's."""
        return self.engine.knobs(job)

    def baseline(self, job: JobSpec, kind: Literal["default", "best_practice", "expert"]) -> tuple[Lever, ...]:
        """The engine's default, whichever is asked: no other has to be in the table."""
        return self.engine.baseline(job, "default")

    def conflicts(self, job: JobSpec, settings: Settings) -> tuple[str, ...]:
        """What was not measured cannot run."""
        return () if key_of(settings) in self.rows else ("not in the table",)

    def planned_work(self, job: JobSpec, settings: Settings, lengths: Lengths) -> PlannedWork:
        """The engine's."""
        return self.engine.planned_work(job, settings, lengths)

    def probe_costs(self, job: JobSpec, out_dir: Path) -> tuple[CostCurve, ...]:
        """As they were measured with the table."""
        return self.regime.costs

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> "TableSession":
        """Start drawing steps."""
        row = self.rows[key_of(spec.settings)]
        self.launches += 1
        self.spent_s += self.regime.start_up_s
        out_dir.mkdir(parents=True, exist_ok=True)
        (out_dir / "spec.json").write_text(canonical_json(spec) + "\n", encoding="utf-8")
        rng = random.Random(f"{self.seed} {self.launches}")
        luck = row.mean_s / (self.true_ratio(spec.settings) * self.regime.rows[0].mean_s)
        return TableSession(framework=self, row=row, shared=math.exp(rng.gauss(0, LAUNCH_SD)) / luck)

    def replay_updates(self, job: JobSpec, parity: Sequence[ParityInput], out_dir: Path) -> list[ParityOutput]:
        """Every update agrees; a replay takes its updates."""
        busy_s = sum(s.seconds for s in self.regime.rows[0].last.spans if s.role == "trainer" and s.kind == "busy")
        self.spent_s += len(parity) * REPLAYED_UPDATES * busy_s
        return [
            ParityOutput(
                params_path="",
                probe_logprobs=(-1.0,),
                grad_norms=(1.0, 1.0),
                param_delta_norm=1.0,
                distance_to_first=0.0 if item.shuffle_seed is None else 1e-6 * item.shuffle_seed,
            )
            for item in parity
        ]

    def render(self, job: JobSpec, settings: Settings) -> str:
        """The engine's."""
        return self.engine.render(job, settings)

    def clean_up(self, run_folder: Path) -> None:
        """There is never a process."""

    def total_memory_bytes(self) -> int:
        """This machine's."""
        return self.engine.total_memory_bytes()


@final
@dataclass(kw_only=True, slots=True)
class TableSession:
    """Implements `core.framework.Session`; it can neither rewind nor turn a knob, as the engine's own."""

    framework: TableFramework
    row: Row
    shared: float
    """What all steps of the launch are longer by than those that were measured."""
    step: int = 0

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Draw steps among those that were measured, in their order."""
        made = [self._one_step() for _ in range(num_steps)]
        if rehearse_s > 0:
            self.framework.spent_s += made[0].step_time_s * max(1, math.ceil(rehearse_s / made[0].step_time_s))
        return made

    def evaluate(self) -> EvalResult:
        """As it was measured at the start."""
        assert self.framework.regime.start is not None, "the table has it"
        return self.framework.regime.start

    def lengths(self) -> SampledLengths:
        """The regime's."""
        return self.framework.regime.lengths

    def close(self) -> None:
        """Nothing to stop."""

    def _one_step(self) -> Observation:
        is_natural = self.row.settings == self.framework.regime.rows[0].settings and self.framework.launches == 1
        natural = self.framework.regime.natural
        seconds = self.row.steps_s[self.step % len(self.row.steps_s)] * self.shared
        source = natural[self.step % len(natural)] if is_natural else self.row.last
        scale = seconds / source.step_time_s
        self.framework.spent_s += seconds
        self.step += 1
        return source.model_copy(
            update={
                "step": self.step - 1,
                "weight_version": self.step,
                "arrivals": (whole_arrival(self.step - 1),),
                "step_time_s": seconds,
                "wall_by_role_s": {role: s * scale for role, s in source.wall_by_role_s.items()},
                "spans": tuple(span.model_copy(update={"seconds": span.seconds * scale}) for span in source.spans),
            }
        )
