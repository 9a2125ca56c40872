"""One job of the campaign: what is trained, how it is set up at the start, and which changes are tried.

A job is data. Surprise: it carries a disturbance that the forecaster is never told of (`told` takes it off): the
profile and both arms of every trial have it, as a real job has its stragglers, and only its effect can be seen.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.change import Change, Move
from steptune.core.knob import Effect, KnobValue, Restart
from steptune.core.records import Record

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Engine = Literal["embedded", "trl", "vllm"]
"""Who runs the job."""

Moves = dict[str, KnobValue]
"""Knobs that a candidate moves, and where to."""


class LengthDraw(Record):
    """Completion lengths in tokens, log-normal: ``LengthDraw(median=14, sigma=0.6, longest=48)``."""

    median: PositiveFloat
    sigma: Annotated[float, Field(ge=0)]
    """Standard deviation of the logarithm; 0 makes every row equally long."""
    longest: PositiveInt
    """Longer ones are cut to this."""


class Disturbance(Record):
    """Something slow that nobody told the forecaster of: ``Disturbance(kind="sync_pause", seconds=0.08)``."""

    kind: Literal["straggler", "sync_pause", "tool_wait"]
    """`straggler`: every optimizer update ends so much later (one rank is slow); `sync_pause`: every hand-over of
    weights; `tool_wait`: every batch (or, where groups are made one by one, every group's share) of rollouts."""
    seconds: PositiveFloat
    """Seconds a step, slept, not computed."""


class Job(Record):
    """What one job of the campaign is.

    Example: ``Job(name="embedded-03", engine="embedded", seed=3, model="hybrid", prompts_per_step=8, group_size=4,
    lengths=LengthDraw(median=14, sigma=0.6, longest=48), baseline={"layout": "padded", ...}, disturbance=None,
    candidates=({"layout": "packed"}, ...))``.
    """

    name: str
    engine: Engine
    seed: int
    """Seed of lengths, weights and sampling."""
    model: str
    """A name in the engine's own table of models."""
    prompts_per_step: PositiveInt
    group_size: PositiveInt
    lengths: LengthDraw
    baseline: dict[str, KnobValue]
    """Every knob of the engine's space. The incumbent of every trial of the job."""
    disturbance: Disturbance | None
    candidates: tuple[Moves, ...]
    """Changes in the order in which they are tried; none is ever dropped."""

    def settings(self, moves: Moves) -> dict[str, KnobValue]:
        """Return the whole configuration under ``moves``; empty moves are the incumbent."""
        return {**self.baseline, **moves}

    def told(self) -> "Job":
        """Return the job as the forecaster sees it."""
        return self.model_copy(update={"disturbance": None})

    def change(self, moves: Moves) -> Change:
        """Return ``moves`` as the tuner's own record. Effect and restart are not asked for here."""
        moved = (Move(knob=knob, old=self.baseline[knob], new=new) for knob, new in sorted(moves.items()))
        return Change(moves=tuple(moved), effect=Effect.NONE, restart=Restart.RELAUNCH)
