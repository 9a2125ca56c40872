"""The file that one run of `bench/gpu_check.sh` writes, checked for agreement with itself as it is read.

Times are kept one by one, so that medians, ratios and intervals in the file can be computed again by whoever reads
it, and are. The surprise: a ratio is *baseline over candidate*, so above 1 the candidate won, and a ratio below 1 is
as good a result as any: runs that lost belong in the table. What a file must hold to be added to the table is not
said here but in `acceptance`: this schema takes a CPU's file too.
"""

import math
import statistics
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from steptune.core.errors import explain
from steptune.core.records import Record
from steptune.stats.ratio import ratio_interval

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning."""

MIN_TURNS = 3
"""Turns behind a ratio: with two, an interval is 12.7 standard errors wide."""

AGREEMENT = 1e-6
"""Relative difference up to which a written number is the one computed from the times (decimal rounding)."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
Reason = Annotated[str, Field(min_length=1)]


class Check(Record):
    """One comparison: ``Check(name="delta_rule", outcome="pass", reason="...", difference=3e-6, tolerance=1e-4)``."""

    name: Name
    outcome: Literal["pass", "fail", "skip"]
    reason: Reason
    """What was compared with what, or why it was not, or how it went wrong."""
    difference: NotNegative | None = None
    """What was found; None where nothing was, or it was not a number."""
    tolerance: NotNegative | None = None
    """Largest difference that passes."""
    took_s: Seconds

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.outcome != "pass":
            return self
        if self.difference is None or self.tolerance is None or self.difference > self.tolerance:
            raise ValueError(
                explain(
                    f"`{self.name}` cannot have passed",
                    got=f"difference {self.difference} with tolerance {self.tolerance}",
                    allowed="a difference no larger than the tolerance",
                    hint="file it as fail, or as skip with the reason",
                )
            )
        return self


class Arm(Record):
    """One way of doing it: ``Arm(name="grouped", times_s=(0.011, 0.012, 0.011), median_s=0.011, peak_bytes=2**30)``."""

    name: Name
    times_s: tuple[PositiveSeconds, ...] = Field(min_length=MIN_TURNS)
    """One a turn, the warm-up turn left out; arms took turns, so equal places make a pair."""
    median_s: PositiveSeconds
    peak_bytes: Count | None
    """Most that was allocated on the device at once, model and all; None where that is not counted."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        _same(f"`{self.name}`: `median_s`", self.median_s, statistics.median(self.times_s))
        return self


class Ratio(Record):
    """``Ratio(candidate="grouped", baseline="where", value=1.8, low=1.7, high=1.9, n=7)``: 1.8 times as fast."""

    candidate: Name
    baseline: Name
    value: Positive
    """Geometric mean of baseline over candidate times, pair by pair."""
    low: Positive
    high: Positive
    n: Annotated[int, Field(ge=MIN_TURNS)]
    """Pairs behind the 95 % interval."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(
                explain(
                    f"the interval of {self.candidate} against {self.baseline} must contain its ratio",
                    got=f"{self.value} in {self.low} to {self.high}",
                    allowed="low <= value <= high",
                    hint="take all three from one computation",
                )
            )
        return self


class Table(Record):
    """Arms that took turns on one job, and their ratios."""

    part: Name
    name: Name
    what: Reason
    """Sizes and what is timed, for the reader."""
    arms: tuple[Arm, ...] = Field(min_length=2)
    ratios: tuple[Ratio, ...] = Field(min_length=1)
    """First that of the baseline against itself."""

    @property
    def noise(self) -> float:
        """Factor within which a ratio shows nothing: the far end of the baseline-against-itself interval."""
        twice = [r for r in self.ratios if r.candidate == again(r.baseline)]
        return max((max(r.high, 1 / r.low) for r in twice), default=math.inf)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        times = {arm.name: arm.times_s for arm in self.arms}
        for ratio in self.ratios:
            if ratio.candidate not in times or ratio.baseline not in times:
                raise ValueError(
                    explain(
                        f"`{self.name}` compares arms that it does not have",
                        got=f"{ratio.candidate} against {ratio.baseline}",
                        allowed=", ".join(times),
                        hint="name arms of the same table",
                    )
                )
            found = ratio_interval(times[ratio.baseline], times[ratio.candidate])
            for name, value in (("value", found.value), ("low", found.low), ("high", found.high), ("n", found.n)):
                what = f"`{self.name}`: `{name}` of {ratio.candidate} against {ratio.baseline}"
                _same(what, getattr(ratio, name), value)
        return self


class Ceilings(Record):
    """What the device can do, measured in the same run."""

    matmul_bf16_flop_per_s: Positive
    matmul_fp32_flop_per_s: Positive
    memory_bytes_per_s: Positive
    """Bytes read and written by a large copy."""
    to_host_bytes_per_s: Positive | None
    """Into pinned memory; None on a CPU."""
    to_device_bytes_per_s: Positive | None


class Distance(Record):
    """How near to a ceiling: ``Distance(family="dense", what="training", achieved=2.1e14, ceiling=7e14, ...)``."""

    family: Name
    what: Literal["training", "decoding"]
    achieved: Positive
    ceiling: Positive
    unit: Literal["FLOP/s", "B/s"]
    note: Reason
    """What is counted."""

    @property
    def frac(self) -> float:
        """Achieved over ceiling."""
        return self.achieved / self.ceiling


class Dropped(Record):
    """A part that was not measured, and why."""

    part: Name
    reason: Reason


class Machine(Record):
    """Where it ran; None is unknown."""

    device_kind: Literal["cuda", "cpu"]
    device_name: Name
    capability: str | None
    """Compute capability, as ``9.0``."""
    device_bytes: Count | None
    driver: str | None
    cuda: str | None
    """The version torch was built for."""
    torch: Name
    python: Name


class GpuResult(Record):
    """One run, whole: a file in `bench/results/gpu/`."""

    schema_version: Literal[1]
    date: AwareDatetime
    machine: Machine
    git_commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None
    is_tree_clean: bool | None
    """Whether tracked files were as committed; None outside of a repository."""
    is_tiny: bool
    """Sizes that only prove the script."""
    budget_s: PositiveSeconds
    took_s: Seconds
    checks: tuple[Check, ...]
    ceilings: Ceilings | None
    tables: tuple[Table, ...]
    distances: tuple[Distance, ...]
    dropped: tuple[Dropped, ...]


def again(baseline: str) -> str:
    """Return the name of the arm that is ``baseline`` a second time: their ratio is the table's noise."""
    return f"{baseline}_again"


def arm(name: str, times_s: list[float], peak_bytes: int | None) -> Arm:
    """Return an arm with its median."""
    return Arm(name=name, times_s=tuple(times_s), median_s=statistics.median(times_s), peak_bytes=peak_bytes)


def ratio(candidate: Arm, baseline: Arm) -> Ratio:
    """Return how many times as fast ``candidate`` is."""
    found = ratio_interval(baseline.times_s, candidate.times_s)
    return Ratio(
        candidate=candidate.name,
        baseline=baseline.name,
        value=found.value,
        low=found.low,
        high=found.high,
        n=found.n,
    )


def _same(what: str, written: float, computed: float) -> None:
    if not math.isclose(written, computed, rel_tol=AGREEMENT):
        raise ValueError(
            explain(
                f"{what} is not what the times give",
                got=written,
                allowed=f"{computed:.9g}",
                hint="write what was measured; nothing is rounded or edited by hand",
            )
        )
