"""A rollout worker without a process: it works when the trainer listens, as eagerly as the test wants."""

from collections import deque
from collections.abc import Callable

from steptune.engine.ahead.bound import age_bound
from steptune.engine.ahead.messages import Paused, Round, Standing
from steptune.engine.ahead.rollout_side import RolloutSide
from steptune.engine.loop import Loop
from steptune.engine.supply.ahead import Ahead
from steptune.engine.supply.state import LoopState
from steptune.engine.weights import weight_channel
from steptune.engine.worker import worker_spec


class InlineWire:
    """Both ends of the wire. ``eager()`` says whether another round is finished when the trainer looks."""

    def __init__(self, side: RolloutSide, eager: Callable[[], bool], listen: Callable[[], bool] | None = None) -> None:
        self.side, self.eager, self.listen = side, eager, listen
        self.answers: deque[Round | Paused] = deque()
        self.rounds_begun_under: list[Standing] = []
        self.most_unread = 0

    def send(self, message: Standing) -> None:
        self.side.hear(message)
        if self.side.owes_pause:
            self.answers.append(Paused())
            self.side.owes_pause = False

    def has_answer(self) -> bool:
        while self.side.may_begin and self.eager():
            self._work()
        return bool(self.answers)

    def receive(self) -> Round | Paused:
        if not self.answers:
            self._work()
        return self.answers.popleft()

    def close(self) -> None:
        self.side.recorder.close()

    def _work(self) -> None:
        assert self.side.standing is not None
        self.rounds_begun_under.append(self.side.standing)
        self.answers.append(self.side.make_round(self.listen))
        self.most_unread = max(self.most_unread, len(self.answers))


def inline_source(
    state: LoopState, eager: Callable[[], bool] = lambda: True, listen: Callable[[], bool] | None = None
) -> Ahead:
    spec = state.spec
    channel = weight_channel(spec.knobs.handover, state.model, spec.folder)
    worker = worker_spec(spec.job, spec.knobs, spec.seed, spec.forced, spec.folder)
    side = RolloutSide(worker, age_bound(spec.job, spec.knobs), channel)
    return Ahead(state, InlineWire(side, eager, listen), channel)


def wire_of(loop: Loop) -> InlineWire:
    assert isinstance(loop.source, Ahead)
    assert isinstance(loop.source.wire, InlineWire)
    return loop.source.wire
