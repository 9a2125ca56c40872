"""The rollout's half of an asynchronous run, without its process: a stream of groups, fed as far as the bound allows.

When new weights are taken::

    in flight       between two decode iterations, as soon as they are published; rows go on over the cache of the old
    otherwise       when nothing is in the making. The weights held are used as far as the bound lets them be; when no
                    further group may be begun under them, the last rows finish and the newest weights are taken

Which places are this replica's to make the trainer says (`deal`): all of them, where it is the only one.

So without `inflight_update` a row is sampled by one version, and the slots run empty once in as many steps as may be
ahead, not at every update. The room for new groups is what the bound gave *with the weights held*: a group begun later
under the same weights would be too old when its turn comes.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import final

from torch import Tensor

from steptune.core.arrival import Arrival
from steptune.core.job import AlgorithmSpec
from steptune.core.phase import Role, SpanKind
from steptune.engine.ahead.bound import AgeBound
from steptune.engine.ahead.groups import Group
from steptune.engine.ahead.messages import Made, Standing
from steptune.engine.arrival import ArrivalCheck
from steptune.engine.events import Clock, Recorder, open_events
from steptune.engine.process import own_peak_memory_bytes
from steptune.engine.produce import Producer, rollout_engine
from steptune.engine.remote import score_probe
from steptune.engine.stream.places import Places
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec, say


@final
class RolloutSide:
    """Owns engine and stream, and the places that are its own and not begun."""

    def __init__(
        self, spec: WorkerSpec, bound: AgeBound, channel: WeightChannel, clock: Clock = time.perf_counter
    ) -> None:
        self.bound, self.channel, self.clock, self.knobs = bound, channel, clock, spec.knobs
        self.recorder = Recorder(
            clock=clock, roles=(Role.ROLLOUT, Role.ENVIRONMENT), rank=spec.rank, file=open_events(spec.events)
        )
        self.engine = rollout_engine(spec.job, spec.knobs)
        self.producer = Producer(spec.job, self.engine, spec.seed, spec.forced, self.recorder)
        self.places = Places(self.producer)
        algorithm = spec.job.algorithm
        self.stream = self.engine.stream(
            num_slots=slots_of(algorithm, spec.knobs.rollout_replicas),
            num_rows=bound.capacity * algorithm.group_size,
            group_size=algorithm.group_size,
            max_completion_len=algorithm.max_completion_len,
            temperature=algorithm.temperature,
            seed=spec.seed,
            is_forced=spec.forced is not None,
            recorder=self.recorder,
        )
        self.standing: Standing | None = None
        self.owes_pause = self.holds_weights = False
        self.places_left = deque[int]()
        """Places handed out to this replica and not begun."""
        self.num_before = self.held_gone = 0
        """Places up to the last one begun, whoever makes them; groups gone when the weights held were taken."""
        self.again: list[int] = []
        """Places to be begun once more (`Places`)."""
        self.probe: RolloutBatch | None = None
        self.check = ArrivalCheck(self.engine, spec.replica)
        self.arrivals: list[Arrival] = []
        """Hand-overs since the last message."""
        self.idle_since_s = self.sent_s = clock()

    def hear(self, standing: Standing) -> None:
        """Take over where the trainer is now."""
        before, self.standing = self.standing, standing
        self.places_left.extend(standing.places)
        if before is None or (before.is_paused and not standing.is_paused):
            self.idle_since_s = self.sent_s = self.clock()
        if standing.is_paused and (before is None or not before.is_paused):
            self.owes_pause = True
        if standing.probe is not None or before is None or standing.version != before.version:
            self.probe = standing.probe

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in the making."""
        return self.stream.is_idle and not self.again

    @property
    def next_place(self) -> int:
        """The place to be begun next."""
        return self.places_left[0] if self.places_left else self.num_before

    @property
    def has_work(self) -> bool:
        """Whether `turn` would do something; in a pause only what was begun is finished."""
        standing = self.standing
        if standing is None:
            return False
        # an empty stream takes the newest weights first, and so has the room that goes with them
        return not self.is_idle or (not standing.is_paused and self._may_begin(standing.num_gone))

    def turn(self, listen: Callable[[], bool]) -> Made | None:
        """Decode until groups are complete or ``listen`` (asked between iterations) has heard something.

        Raises:
            TrialError: the weights are not those published.
            HealthError: they give NaN or infinite log-probs.
        """
        assert self.has_work, "a turn with nothing to do"
        recorder, begun_s = self.recorder, self.clock()
        recorder.step = self.next_place // self.bound.groups_per_step
        for role in recorder.roles:
            recorder.add(role, "train", SpanKind.EXPOSED_WAIT, self.idle_since_s, begun_s)
        probe_version, probe_logprobs_BT = self._take_weights()
        with recorder.span(Role.ROLLOUT, "rollout"):
            done = self.stream.run(self._refill, listen)
        groups = list[Group]()
        if done:
            with recorder.span(Role.ENVIRONMENT, "reward"):
                for one in done:
                    group = self.places.verified(one)
                    if group is None:
                        self.again.append(one.number)
                    else:
                        groups.append(group)
        self.idle_since_s = self.clock()
        if not groups and probe_version is None:
            return None
        return self._message(groups, probe_version, probe_logprobs_BT)

    def _message(self, groups: list[Group], probe_version: int | None, probe_logprobs_BT: Tensor | None) -> Made:
        wall_s = self.clock() - self.sent_s
        self.sent_s += wall_s
        self.idle_since_s = self.sent_s
        return Made(
            groups=tuple(groups),
            trace=self.stream.take_trace(),
            spans=self.recorder.take(),
            wall_s=wall_s,
            probe_version=probe_version,
            probe_logprobs_BT=probe_logprobs_BT,
            peak_memory_bytes=own_peak_memory_bytes(),
            arrivals=self._take_arrivals(),
        )

    def _take_arrivals(self) -> tuple[Arrival, ...]:
        arrivals, self.arrivals = tuple(self.arrivals), []
        return arrivals

    def _may_begin(self, num_gone: int) -> bool:
        return bool(self.places_left) and self.bound.may_begin(1, num_begun=self.places_left[0], num_gone=num_gone)

    def _refill(self) -> None:
        """Begin groups while slots are open and the bound allows: those that are made again first."""
        assert self.standing is not None
        while self.stream.has_room:
            if self.again:
                self.stream.begin(self.places.start(self.again.pop(0)))
            elif not self.standing.is_paused and self._may_begin(self.held_gone):
                place = self.places_left.popleft()
                self.stream.begin(self.places.start(place))
                self.num_before = place + 1
            else:
                return

    def _take_weights(self) -> tuple[int | None, Tensor | None]:
        """Take the newest weights if it is time; answer the probe, once, under the very weights it was sent for."""
        standing = self.standing
        assert standing is not None
        is_behind = not self.holds_weights or self.engine.version < standing.version
        if is_behind and (self.is_idle or self.knobs.inflight_update):
            with self.recorder.span(Role.ROLLOUT, "weight_sync"):
                self._load()
        if self.engine.version >= standing.version and self.holds_weights:
            self.held_gone = standing.num_gone
        probe = self.probe
        if probe is None or standing.version != self.engine.version:
            return None, None
        self.probe = None
        with (
            self.recorder.span(Role.ROLLOUT, "weight_sync"),
            self.recorder.span(Role.ROLLOUT, "weight_sync/probe"),
        ):
            return standing.version, score_probe(self.producer, probe)

    def _load(self) -> None:
        weights = self.channel.read()
        with self.recorder.span(Role.ROLLOUT, "weight_sync/check"):
            self.check.before(weights.state, weights.version)
        self.engine.load(weights.state, weights.version)
        with self.recorder.span(Role.ROLLOUT, "weight_sync/check"):
            self.arrivals.append(self.check.after(weights.state, weights.version, weights.hashes))
        self.holds_weights = True
        self.recorder.count("weight_version", weights.version)
        say(f"place {self.next_place}: rollout with weights {weights.version}")


def slots_of(algorithm: AlgorithmSpec, num_replicas: int) -> int:
    """Return the rows that one replica decodes at once: its part of a step's groups, rounded up to whole ones."""
    return -(-algorithm.prompts_per_step // num_replicas) * algorithm.group_size
