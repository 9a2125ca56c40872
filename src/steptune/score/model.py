"""The models under test: handed in as objects, so that one can be scored the day it exists.

A model is asked for the step time of a public row, with or without one measured row of the same job to calibrate
on. Surprise: it never sees the row's own outcome. `stated` removes every measured column and every setting that gives
the outcome away (lengths worked out of throughput, peak memory, notes); realised mean lengths stay, for a forecast is
made at given lengths.
"""

from dataclasses import dataclass
from typing import Protocol, final

from steptune.published.levers import SettingKind, setting_kinds
from steptune.published.public_run import PublicRun

OUTCOME_COLUMNS = (
    "step_time_s",
    "gen_s",
    "logprob_s",
    "ref_s",
    "train_s",
    "sync_s",
    "reward_s",
    "other_s",
    "tokens_per_s_per_gpu",
    "reward_or_accuracy",
    "gen_kind",
    "step_time_std",
    "notes",
)
"""What a row measured, or what tells it."""

ALWAYS_ASYNC_RATIO = 0.5
"""What the arm that always says asynchronous forecasts for it: any ratio clearly below 1 gives the same sign."""


class StepModel(Protocol):
    """Forecasts the step time of a published configuration."""

    @property
    def name(self) -> str:
        """Name of the arm."""
        ...

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        """Return seconds per step of ``run``, which comes without outcomes; None refuses.

        ``measured`` is a row of the same job with all it measured; None: only what ``run`` states is known.
        """
        ...


def stated(run: PublicRun) -> PublicRun:
    """Return the row without anything that was measured or that gives it away."""
    kinds = setting_kinds()
    settings = {name: value for name, value in run.other_settings.items() if kinds.get(name) is not SettingKind.OUTCOME}
    return run.model_copy(update={**dict.fromkeys(OUTCOME_COLUMNS), "other_settings": settings})


def forecast_s(model: StepModel, run: PublicRun, measured: PublicRun | None) -> float | None:
    """Return the model's answer about ``run`` without its outcomes; an answer that is no time counts as a refusal."""
    answer = model.step_s(stated(run), measured=measured)
    return answer if answer is not None and 0 < answer < float("inf") else None


@final
@dataclass(frozen=True, slots=True)
class NoChange:
    """Forecasts that nothing changes the step."""

    name: str = "no change"

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        """Return the measured row's step time."""
        return None if measured is None else measured.step_time_s


@final
@dataclass(frozen=True, slots=True)
class InverseDevices:
    """Forecasts time in inverse proportion to the number of devices."""

    name: str = "time ~ 1 / devices"

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        """Return the measured step time, scaled; unknown device counts are taken as unmoved."""
        if measured is None or measured.step_time_s is None:
            return None
        if not run.n_gpus or not measured.n_gpus:
            return measured.step_time_s
        return measured.step_time_s * measured.n_gpus / run.n_gpus


@final
@dataclass(frozen=True, slots=True)
class Overlap:
    """Forecasts that an overlapped row takes ``ratio`` times as long as any other, and says nothing else."""

    name: str
    ratio: float

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        """Return the measured step time times the ratio, its inverse, or 1."""
        if measured is None or measured.step_time_s is None:
            return None
        if is_overlapped(run) == is_overlapped(measured):
            return measured.step_time_s
        return measured.step_time_s * (self.ratio if is_overlapped(run) else 1 / self.ratio)


def is_overlapped(run: PublicRun) -> bool:
    """Return whether the row is known to be asynchronous or to give each side its own devices."""
    return bool(run.is_async) or run.placement == "disaggregated"


TRIVIAL_ARMS: tuple[StepModel, ...] = (
    NoChange(),
    InverseDevices(),
    Overlap("always asynchronous", ALWAYS_ASYNC_RATIO),
)
"""What every ratio and choice stands beside; the random pick is no model and is worked out where a row is chosen."""
