"""Rollouts from a foreign server, synchronously: weights out through files, completions back over HTTP."""

from typing import final

import torch

from steptune.core.phase import Role
from steptune.engine.foreign.arrival import ArrivalProbe
from steptune.engine.foreign.for_job import vllm_engine
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.produce import Producer
from steptune.engine.supply.source import Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.supply.stateless import Stateless


@final
class Foreign(Stateless):
    """Makes every batch in another process; the trainer waits meanwhile, so the server's seconds are its own."""

    def __init__(self, state: LoopState, engine: VllmEngine | None = None) -> None:
        """Start the server with the weights as they are now; ``engine`` None takes the job's.

        Raises:
            JobError: there is no environment with vLLM, or it cannot do this model.
            TrialError: the server did not start.
        """
        if engine is None:
            engine = vllm_engine(state.spec.job, state.spec.knobs, state.spec.seed, state.spec.folder / "vllm")
        self.loop, self.engine = state, engine
        spec, recorder = state.spec, state.recorder
        recorder.roles = (Role.TRAINER, Role.ROLLOUT, Role.ENVIRONMENT)
        torch.set_num_threads(spec.knobs.train_threads)
        self.producer = Producer(spec.job, engine, spec.seed, spec.forced, recorder)
        rows = len(state.model.embed.weight)
        try:
            engine.load(state.model.state_dict(), state.version)
            self._probe: ArrivalProbe | None = ArrivalProbe(state.model, engine.wire, engine.settings.dtype, rows)
        except Exception:
            engine.close()  # nobody else will: the loop has no source yet
            raise

    def next(self) -> Supply:
        """Hand over the weights and have the coming step's rollouts made.

        Raises:
            TrialError: the server died, answered nonsense, or did not take the weights over.
        """
        loop = self.loop
        with loop.recorder.span(Role.TRAINER, "weight_sync"):
            self.engine.load(loop.model.state_dict(), loop.version)
            if self._probe is not None and self._probe.check() == "arrived":
                self._probe = None  # proven for this server: later updates take the same way
        produced = self.producer.produce(loop.step_index)
        server = self.engine.server
        memory_bytes = None if server is None else server.peak_memory_bytes()
        return Supply(produced=produced, spans=[], remote_wall_s=None, probe_gap=None, peak_memory_bytes=memory_bytes)

    def close(self) -> None:
        """Stop the server and all it started."""
        self.engine.close()
