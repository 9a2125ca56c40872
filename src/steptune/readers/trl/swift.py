"""What ms-swift, which drives TRL's trainers too, adds to the dict: the step's number and the speed of the run.

`train_speed(iter/s)`, later `train_speed(s/it)`, is steps over seconds since the run began or the inverse, loading and
warm-up included (modelscope/ms-swift, swift/trainers): the mean step so far, not the step. `memory(GiB)` may add up a
process's devices.
"""

import re
from collections.abc import Iterable

from steptune.readers.step import Dropped, Reading

SPEED_KEY = "train_speed(iter/s)"
NEWER_SPEED_KEY = "train_speed(s/it)"
MEAN_STEP_KEY = "1 / train_speed(iter/s)"
"""Mean seconds per step since the run began."""

_STEP = re.compile(r"(?P<quote>['\"])global_step/max_steps(?P=quote): (?P=quote)(?P<number>\d{1,9})/\d+(?P=quote)")


def stated_number(text: str) -> int | None:
    """Return the step that a record says it is of."""
    found = _STEP.search(text) if "global_step/" in text else None
    return None if found is None else int(found["number"])


def mean_step(found: Iterable[Reading | Dropped]) -> list[Reading]:
    """Return the mean step time of the run so far, where the speed is stated."""
    speeds = [item for item in found if isinstance(item, Reading) and item.value > 0]
    return [
        Reading(key=MEAN_STEP_KEY, value=1 / item.value, text=f"1 / {item.text}", line=item.line)
        if item.key == SPEED_KEY
        else Reading(key=MEAN_STEP_KEY, value=item.value, text=item.text, line=item.line)
        for item in speeds
        if item.key in (SPEED_KEY, NEWER_SPEED_KEY)
    ]
