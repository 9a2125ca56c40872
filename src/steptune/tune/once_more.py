"""A run that was killed from outside is run once more, so that an accident costs neither a trial nor a session.

Surprise: it is not only the candidate that may be hit. A baseline that somebody kills in the middle of a trial would
otherwise be the candidate's failure, and accuse its moves. The second kill counts: what kills twice is no accident.
"""

from collections.abc import Callable
from typing import TypeVar

from steptune.core.errors import KilledError

Result = TypeVar("Result")


def once_more(run: Callable[[], Result], say: Callable[[str], None]) -> Result:
    """Return what ``run`` returns, in its second attempt where a process of the first was killed from outside.

    Raises:
        KilledError: the second attempt was killed, too.
    """
    try:
        return run()
    except KilledError as error:
        say(f"{error}; once more, for it may have been an accident")
    return run()
