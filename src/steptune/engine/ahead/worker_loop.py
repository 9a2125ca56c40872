"""The process around `RolloutSide`: listens between rounds, or between decode iterations, and never sleeps."""

from multiprocessing.connection import Connection

from steptune.engine.ahead.bound import AgeBound
from steptune.engine.ahead.messages import Paused
from steptune.engine.ahead.outbox import Outbox
from steptune.engine.ahead.rollout_side import RolloutSide
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec


def make_rounds(spec: WorkerSpec, pipe: Connection, shared: tuple[AgeBound, WeightChannel]) -> None:
    """Make rounds until the trainer closes the wire (EOFError)."""
    bound, channel = shared
    side = RolloutSide(spec, bound, channel)
    outbox = Outbox(pipe)

    def listen() -> bool:
        """Hear what has come; return whether anything has."""
        heard = False
        while pipe.poll(0):
            side.hear(pipe.recv())
            heard = True
        return heard

    try:
        while True:
            listen()
            if side.owes_pause:
                outbox.put(Paused())
                side.owes_pause = False
            if side.may_begin:
                outbox.put(side.make_round(listen if spec.knobs.inflight_update else None))
            else:
                side.hear(pipe.recv())
    finally:
        outbox.close()
