"""Starts every replica but the first, which is an engine of the process that shares a batch out."""

from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from steptune.engine.replicas.wire import StartReplica, Stoppable
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec

End = TypeVar("End", bound=Stoppable)


def start_replicas(spec: WorkerSpec, channel: WeightChannel, start: StartReplica[End]) -> list[End]:
    """Return the wires to replicas 1 and on; ``spec`` is the first one's. They load while this process goes on."""
    ends: list[End] = []
    with ExitStack() as undo:
        for number in range(1, spec.knobs.rollout_replicas):
            ends.append(start(replace(spec, replica=number), channel))
            undo.callback(ends[-1].close, at_once=True)
        undo.pop_all()
    return ends
