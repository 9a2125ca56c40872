"""A source that has nothing in flight and nothing to remember between two steps: most of `Source` is then nothing."""

from abc import ABC, abstractmethod

from steptune.engine.supply.source import SourceState, Supply
from steptune.engine.types import RolloutBatch


class Stateless(ABC):
    """Makes every batch when it is asked for. A step's rollouts follow from its number, the seed and the weights."""

    @abstractmethod
    def next(self) -> Supply:
        """Make the coming step's rollouts."""

    @abstractmethod
    def close(self) -> None:
        """Stop every process of the source."""

    def rehearse(self) -> Supply:
        """Make them; they are made again when the step comes."""
        return self.next()

    def after_update(self, batch: RolloutBatch, *, is_kept: bool) -> None:  # noqa: B027  nothing is the answer
        """Nothing to do: the gap at equal weights is read off the first training forward."""

    def settle(self) -> None:  # noqa: B027  nothing is the answer
        """Nothing is ever in flight between steps."""

    def state(self) -> SourceState:
        """Nothing."""
        return {}

    def load_state(self, state: SourceState) -> None:
        """Nothing to load."""
        assert not state, "this source remembers nothing"
