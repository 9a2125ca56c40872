"""A one-step-off worker without a process: it does what is ordered at once, messages pickled as on the wire."""

import pickle
from collections import deque

from steptune.engine.remote import Delivery, RolloutSide
from steptune.engine.supply.one_step_off import OneStepOff
from steptune.engine.supply.state import LoopState
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec


class InlineWorker:
    """Both ends of the wire."""

    def __init__(self, spec: WorkerSpec, channel: WeightChannel) -> None:
        self.side = RolloutSide(spec, channel)
        self.answers = deque[bytes]()

    def send(self, message: object) -> None:
        self.answers.append(pickle.dumps(self.side.answer(pickle.loads(pickle.dumps(message)))))

    def has_answer(self) -> bool:
        return bool(self.answers)

    def receive(self) -> Delivery:
        return pickle.loads(self.answers.popleft())

    def close(self) -> None:
        self.side.recorder.close()


def inline_one_step_off(state: LoopState) -> OneStepOff:
    """Return the schedule's source over it: starting a process that loads torch takes longer than these tests."""
    return OneStepOff(state, InlineWorker)
