"""A rollout worker without a process: it works when the trainer listens, as eagerly as the test wants."""

from collections import deque
from collections.abc import Callable, Sequence

from steptune.engine.ahead.bound import age_bound
from steptune.engine.ahead.messages import Made, Paused, Standing
from steptune.engine.ahead.rollout_side import RolloutSide
from steptune.engine.loop import Loop
from steptune.engine.supply.ahead import Ahead
from steptune.engine.supply.state import LoopState
from steptune.engine.weights import weight_channel
from steptune.engine.worker import worker_spec


class InlineWire:
    """Both ends of the wire. ``eager()`` says whether the worker has come further when the trainer looks."""

    def __init__(self, side: RolloutSide, eager: Callable[[], bool]) -> None:
        self.side, self.eager = side, eager
        self.answers: deque[Made | Paused] = deque()
        self.sent: list[Made] = []

    def send(self, message: Standing) -> None:
        self.side.hear(message)
        if self.side.owes_pause:
            while self.side.has_work:
                self.work()
            self.answers.append(Paused())
            self.side.owes_pause = False

    def has_answer(self) -> bool:
        while self.side.has_work and self.eager():
            self.work()
        return bool(self.answers)

    def receive(self) -> Made | Paused:
        while not self.answers:
            self.work()
        return self.answers.popleft()

    def close(self) -> None:
        self.side.recorder.close()

    def work(self, listen: Callable[[], bool] = lambda: False) -> None:
        """One turn of the worker."""
        made = self.side.turn(listen)
        if made is not None:
            self.sent.append(made)
            self.answers.append(made)


class InlineWires:
    """All replicas' wires. Who is waited for works until it has said something, if nobody else has."""

    def __init__(self, wires: Sequence[InlineWire]) -> None:
        self.wires = wires

    def send(self, replica: int, standing: Standing) -> None:
        self.wires[replica].send(standing)

    def has_answer(self) -> bool:
        return max(wire.has_answer() for wire in self.wires)  # all of them: looking is what lets one work

    def receive(self, waits_for: int) -> tuple[int, Made | Paused]:
        replica = next((number for number, wire in enumerate(self.wires) if wire.answers), waits_for)
        return replica, self.wires[replica].receive()

    def close(self) -> None:
        for wire in self.wires:
            wire.close()


def inline_source(state: LoopState, eager: Callable[[], bool] = lambda: True) -> Ahead:
    spec = state.spec
    channel = weight_channel(spec.knobs.handover, state.model, spec.folder)
    workers = [
        worker_spec(spec.job, spec.knobs, spec.seed, spec.forced, spec.folder, replica)
        for replica in range(spec.knobs.rollout_replicas)
    ]
    bound = age_bound(spec.job, spec.knobs)
    return Ahead(
        state, InlineWires([InlineWire(RolloutSide(worker, bound, channel), eager) for worker in workers]), channel
    )


def wire_of(loop: Loop, replica: int = 0) -> InlineWire:
    assert isinstance(loop.source, Ahead)
    assert isinstance(loop.source.wires, InlineWires)
    return loop.source.wires.wires[replica]
