"""Starts replicas; the first one of a batch is no process of its own but an engine of whoever shares the batch out."""

from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from steptune.engine.replicas.wire import StartReplica, Stoppable
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec

End = TypeVar("End", bound=Stoppable)


def start_replicas(spec: WorkerSpec, channel: WeightChannel, start: StartReplica[End], *, first: int = 1) -> list[End]:
    """Return the wires to replicas ``first`` and on; ``spec`` is replica 0's. They load while this process goes on."""
    ends: list[End] = []
    with ExitStack() as undo:
        for number in range(first, spec.knobs.rollout_replicas):
            ends.append(start(replace(spec, replica=number), channel))
            undo.callback(ends[-1].close, at_once=True)
        undo.pop_all()
    return ends
