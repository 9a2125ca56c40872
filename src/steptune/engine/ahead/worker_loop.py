"""The process around `RolloutSide`: listens between decode iterations, and never sleeps."""

from multiprocessing.connection import Connection

from steptune.engine.ahead.bound import AgeBound
from steptune.engine.ahead.messages import Paused
from steptune.engine.ahead.outbox import Outbox
from steptune.engine.ahead.rollout_side import RolloutSide
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec


def make_groups(spec: WorkerSpec, pipe: Connection, shared: tuple[AgeBound, WeightChannel]) -> None:
    """Make groups until the trainer closes the wire (EOFError)."""
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
            if side.has_work:
                made = side.turn(listen)
                if made is not None:
                    outbox.put(made)
            elif side.owes_pause:
                outbox.put(Paused())
                side.owes_pause = False
            else:
                side.hear(pipe.recv())
    finally:
        outbox.close()
