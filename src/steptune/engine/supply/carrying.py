"""The synchronous schedule with partial rollouts: a step stops when enough groups are complete, the others go on later.

What goes on keeps its tokens, their log-probs and the versions that sampled them; its cache is dropped, and computed
again under the new weights when the step comes (`RolloutTrace.resumed_tokens`). Nothing else is remembered, so a saved
run goes on exactly.
"""

from copy import copy
from typing import final

from steptune.core.phase import Role
from steptune.engine.ahead.groups import join_groups
from steptune.engine.stream.carry import CarryBook, carry_bound
from steptune.engine.stream.groups import Done
from steptune.engine.stream.places import Places
from steptune.engine.supply.own_engine import OwnEngine
from steptune.engine.supply.source import SourceState, Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.types import RolloutBatch, RolloutTrace


@final
class Carrying:
    """Owns the book of groups; between two steps its stream is empty."""

    def __init__(self, state: LoopState) -> None:
        self.loop, self.own = state, OwnEngine(state)
        job, knobs = state.spec.job, state.spec.knobs
        algorithm, bound = job.algorithm, carry_bound(job, knobs)
        self.book, self.places = CarryBook(bound), Places(self.own.producer)
        num_rows = bound.capacity * algorithm.group_size
        self.stream = self.own.engine.stream(
            num_slots=num_rows,
            num_rows=num_rows,
            group_size=algorithm.group_size,
            max_completion_len=algorithm.max_completion_len,
            temperature=algorithm.temperature,
            seed=state.spec.seed,
            is_forced=state.spec.forced is not None,
            recorder=state.recorder,
        )

    def next(self) -> Supply:
        """Decode until the coming step's groups are complete."""
        loop, book = self.loop, self.book
        for start in book.open(loop.version, self.places.start):
            self.stream.begin(start)
        num_left_out = 0
        with self.own.turn():
            while not book.is_enough(loop.version):
                with loop.recorder.span(Role.ROLLOUT, "rollout"):
                    done = self.stream.run(lambda: None, lambda: False)
                with loop.recorder.span(Role.ENVIRONMENT, "reward"):
                    num_left_out += sum(self._hear(one) for one in done)
            with loop.recorder.span(Role.ROLLOUT, "rollout"):
                carried = self.stream.take_out()
        trace = self.stream.take_trace()
        book.carry(carried, sum(trace.running_I) - num_left_out)
        return self._supply(trace)

    def _hear(self, done: Done) -> int:
        """Book a complete group; return the tokens of one that teaches nothing, whose place is begun again."""
        group = self.places.verified(done)
        if group is not None:
            self.book.complete(group)
            return 0
        self.stream.begin(self.book.begin_again(self.places.start(done.number)))
        return int(done.batch.lengths_B.sum())

    def _supply(self, trace: RolloutTrace) -> Supply:
        loop, book = self.loop, self.book
        produced = join_groups(book.take(), loop.spec.job.algorithm.group_size, (trace,))
        batch = produced.batch
        lag_mean = float((loop.version - batch.versions_BT[batch.mask_BT]).float().mean())
        queue = book.stats(lag_mean)
        loop.recorder.count("lag", lag_mean)
        loop.recorder.count("carried_groups", len(book.making))
        loop.recorder.count("resumed_tokens", trace.resumed_tokens)
        if queue.length_bias is not None:
            loop.recorder.count("length_bias", queue.length_bias)
        return Supply(
            produced=produced,
            spans=[],
            remote_wall_s=None,
            probe_gap=None,
            peak_memory_bytes=None,
            queue=queue,
            arrivals=self.own.arrivals,
        )

    def rehearse(self) -> Supply:
        """Decode the coming step and forget it: the book is as it was."""
        held = self.state()
        supply = self.next()
        self.load_state(held)
        return supply

    def after_update(self, batch: RolloutBatch, *, is_kept: bool) -> None:
        """Nothing to do: the gap at equal weights is read off the tokens that the weights of now have sampled."""

    def settle(self) -> None:
        """Nothing is ever in flight between steps."""

    def state(self) -> SourceState:
        """The book: groups that wait and that go on, the counts, and which problem of its place each group has."""
        book = self.book
        return {
            "making": copy(book.making),
            "ready": copy(book.ready),
            "next_place": book.next_place,
            "num_groups": copy(book.num_groups),
            "num_tokens": copy(book.num_tokens),
            "tries": copy(self.places.tries),
        }

    def load_state(self, state: SourceState) -> None:
        """Take over a book."""
        book = self.book
        book.making, book.ready = copy(state["making"]), copy(state["ready"])
        book.next_place = state["next_place"]
        book.num_groups, book.num_tokens = copy(state["num_groups"]), copy(state["num_tokens"])
        self.places.tries = copy(state["tries"])

    def close(self) -> None:
        """No process to stop."""
