"""Workers and replicas without processes: they do what is ordered at once, messages pickled as on the wire."""

import pickle
from collections import deque
from collections.abc import Sequence

from steptune.engine.remote import Delivery, LentReplica, RolloutSide
from steptune.engine.replicas.messages import Answer
from steptune.engine.replicas.replica import Replica
from steptune.engine.supply.in_process import InProcess
from steptune.engine.supply.one_step_off import OneStepOff
from steptune.engine.supply.state import LoopState
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec


class InlineWorker:
    """Both ends of the wire."""

    def __init__(self, spec: WorkerSpec, channel: WeightChannel, others: Sequence[LentReplica] = ()) -> None:
        self.side = RolloutSide(spec, channel, [lent.end() for lent in others])
        self.answers = deque[bytes]()

    def send(self, message: object) -> None:
        self.answers.append(pickle.dumps(self.side.answer(pickle.loads(pickle.dumps(message)))))

    def has_answer(self) -> bool:
        return bool(self.answers)

    def receive(self) -> Delivery:
        return pickle.loads(self.answers.popleft())

    def close(self) -> None:
        self.side.recorder.close()


class InlineReplica:
    """Both ends of the wire to a replica, lent or not."""

    def __init__(self, spec: WorkerSpec, channel: WeightChannel) -> None:
        self.replica, self.doing, self.is_closed = Replica(spec, channel), "", False
        self.answers = deque[bytes]()

    def lend(self) -> "InlineReplica":
        return self

    def end(self) -> "InlineReplica":
        return self

    def send_plain(self, message: object, _patience_s: float) -> None:
        self.answers.append(pickle.dumps(self.replica.answer(pickle.loads(pickle.dumps(message)))))

    def receive(self, _patience_s: float | None = None) -> Answer:
        return pickle.loads(self.answers.popleft())

    def close(self, *, at_once: bool = False) -> None:
        self.is_closed = True
        self.replica.recorder.close()


def inline_sync(state: LoopState) -> InProcess:
    """Return the synchronous source over replicas in this process."""
    return InProcess(state, InlineReplica)


def inline_one_step_off(state: LoopState) -> OneStepOff:
    """Return the schedule's source over it: starting a process that loads torch takes longer than these tests."""
    return OneStepOff(state, InlineWorker, InlineReplica)
