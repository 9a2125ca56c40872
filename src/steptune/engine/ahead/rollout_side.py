"""The rollout's half of an asynchronous run, without its process: hears where the trainer is, makes rounds.

A round is as many groups as a step takes, decoded together: the decode batch is as large as in every other schedule.
Whether the next one may be begun is `AgeBound`'s to say, so a round never waits in the middle.
"""

import time
from collections.abc import Callable
from typing import final

from torch import Tensor

from steptune.core.phase import Role, SpanKind
from steptune.engine.ahead.bound import AgeBound
from steptune.engine.ahead.messages import Round, Standing
from steptune.engine.events import Clock, Recorder, open_events
from steptune.engine.process import peak_memory_bytes
from steptune.engine.produce import Producer, rollout_engine
from steptune.engine.remote import score_probe
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec, say


@final
class RolloutSide:
    """Owns engine, producer and the number of the next round."""

    def __init__(
        self, spec: WorkerSpec, bound: AgeBound, channel: WeightChannel, clock: Clock = time.perf_counter
    ) -> None:
        self.bound, self.channel, self.clock = bound, channel, clock
        events = open_events(spec.folder / "events.rollout.jsonl")
        self.recorder = Recorder(clock=clock, roles=(Role.ROLLOUT, Role.ENVIRONMENT), file=events)
        self.engine = rollout_engine(spec.job, spec.knobs)
        self.producer = Producer(spec.job, self.engine, spec.seed, spec.forced, self.recorder)
        self.standing: Standing | None = None
        self.owes_pause = False
        self.next_round = 0
        self.probe: RolloutBatch | None = None
        self.last_s = clock()

    def hear(self, standing: Standing) -> None:
        """Take over where the trainer is now."""
        if self.standing is None:
            self.next_round = standing.first_round
        if self.standing is None or (self.standing.is_paused and not standing.is_paused):
            self.last_s = self.clock()
        if standing.is_paused and (self.standing is None or not self.standing.is_paused):
            self.owes_pause = True
        if standing.probe is not None or self.standing is None or standing.version != self.standing.version:
            self.probe = standing.probe
        self.standing = standing

    @property
    def may_begin(self) -> bool:
        """Whether a round begun now would be young enough when its turn comes."""
        standing, size = self.standing, self.bound.groups_per_step
        if standing is None or standing.is_paused:
            return False
        return self.bound.may_begin(size, num_begun=self.next_round * size, num_gone=standing.num_gone)

    def make_round(self, listen: Callable[[], bool] | None) -> Round:
        """Load the newest weights and make a round.

        ``listen`` is asked between decode iterations whether newer weights were published, which then take over at
        once, over the cache of the old ones; None leaves a round to the weights it began with.

        Raises:
            TrialError: the weights are not those published.
        """
        assert self.may_begin, "a round was begun that may be too old"
        number, recorder = self.next_round, self.recorder
        recorder.step = number
        begun_s = self.clock()
        for role in recorder.roles:
            recorder.add(role, "train", SpanKind.EXPOSED_WAIT, self.last_s, begun_s)
        with recorder.span(Role.ROLLOUT, "weight_sync"):
            self._load()
            probe_version, probe_logprobs_BT = self._answer_probe()
        say(f"round {number}: rollout begins with weights {self.engine.version}")
        self.producer.refresh = None if listen is None else lambda: self._load() if listen() else None
        produced = self.producer.produce(number)
        self.next_round = number + 1
        wall_s = self.clock() - self.last_s
        self.last_s += wall_s
        return Round(
            number=number,
            produced=produced,
            spans=recorder.take(),
            wall_s=wall_s,
            probe_version=probe_version,
            probe_logprobs_BT=probe_logprobs_BT,
            peak_memory_bytes=peak_memory_bytes(),
        )

    def _load(self) -> None:
        weights = self.channel.read()
        self.engine.load(weights.state, weights.version)
        self.recorder.count("weight_version", weights.version)

    def _answer_probe(self) -> tuple[int | None, Tensor | None]:
        """Score the probe, once, and only under the very weights it was sent for."""
        standing, probe = self.standing, self.probe
        if probe is None or standing is None or standing.version != self.engine.version:
            return None, None
        self.probe = None
        with self.recorder.span(Role.ROLLOUT, "weight_sync/probe"):
            return standing.version, score_probe(self.producer, probe)
