"""A run as it is saved: all that its next step depends on, so that a killed run goes on with the same losses.

There is no generator state: sampling noise is keyed by (seed, problem, sample, position), and problems follow from the
step's number. What was sampled and not yet trained on is saved with its log-probs and versions, not made again.
"""

import io
from typing import Any

import torch

from steptune.core.errors import StoreError, explain
from steptune.core.phase import Role, SpanKind
from steptune.engine.ahead.groups import Group
from steptune.engine.events import Span
from steptune.engine.produce import Produced
from steptune.engine.remote import Delivery
from steptune.engine.stream.groups import Said, Start
from steptune.engine.supply.source import Source
from steptune.engine.supply.state import LoopState
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace

RECORDS = (Delivery, Group, Produced, PromptBatch, RolloutBatch, RolloutTrace, Said, Span, Start, Role, SpanKind)
"""Every class of ours inside a saved run: a file may hold no other code."""


def pack(state: LoopState, source: Source, *, steps_done: int, lengths: tuple[list[int], list[int]]) -> bytes:
    """Return the run after ``steps_done`` steps; work in flight is waited for. ``lengths``: prompts', completions'."""
    held: dict[str, Any] = {
        "run": identity(state),
        "step": steps_done,
        "version": state.version,
        "trainer": state.trainer.state(),
        "source": source.state(),
        "lengths": lengths,
    }
    out = io.BytesIO()
    torch.save(held, out)
    return out.getvalue()


def unpack(payload: bytes, state: LoopState, source: Source) -> tuple[list[int], list[int]]:
    """Put a saved run's weights, optimizer, counters and rollouts in place; return the lengths so far.

    Raises:
        StoreError: it is another run's.
    """
    with torch.serialization.safe_globals(list(RECORDS)):
        held = torch.load(io.BytesIO(payload), weights_only=True)
    if held["run"] != identity(state):
        raise StoreError(
            explain(
                "the checkpoint is of another run",
                got=_first_difference(held["run"], identity(state)),
                allowed="the same job, knobs, seed and forced lengths",
                hint="resume the run in its own folder, with the job file it was started with",
            )
        )
    state.trainer.load_state(held["trainer"])
    state.version, state.step_index = held["version"], held["step"]
    source.load_state(held["source"])
    return held["lengths"]


def identity(state: LoopState) -> dict[str, str]:
    """Return what must be equal for a run to go on: each part as text."""
    spec = state.spec
    return {
        "job": spec.job.model_dump_json(),
        "knobs": spec.knobs.model_dump_json(),
        "seed": str(spec.seed),
        "forced": "none" if spec.forced is None else spec.forced.model_dump_json(),
    }


def _first_difference(a: dict[str, str], b: dict[str, str]) -> str:
    return next((f"another {name}" for name in b if a.get(name) != b[name]), "parts that are unknown")
