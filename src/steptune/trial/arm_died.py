"""Which of several arms died. A candidate that dies is at fault; what it is compared with is not its doing."""

from collections.abc import Generator
from contextlib import contextmanager

from steptune.core.errors import KilledError, TrialError
from steptune.core.trial import TrialState


class ArmDiedError(TrialError):
    """An arm died or ran out of memory: which one, counted from 0, and how."""

    def __init__(self, arm: int, state: TrialState, cause: str) -> None:
        super().__init__(cause)
        self.arm, self.state = arm, state


@contextmanager
def blaming(arm: int) -> Generator[None]:
    """Say of what dies inside that it was ``arm``; a kill from outside is nobody's doing.

    Raises:
        ArmDiedError: it died.
    """
    try:
        yield
    except KilledError:
        raise
    except MemoryError as error:
        raise ArmDiedError(arm, TrialState.OUT_OF_MEMORY, str(error)) from error
    except TrialError as error:
        raise ArmDiedError(arm, TrialState.FAILED, str(error)) from error
