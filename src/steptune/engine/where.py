"""Where in the engine a program is, by the frames of its stack: the phase it hangs or fails in. Pure, without torch.

Surprise: the innermost frame is rarely telling (a tensor operation), so the innermost frame *that a phase owns* counts.
"""

import re
import signal
from collections.abc import Mapping

STACK_SIGNAL = signal.SIGUSR1
"""Makes a run print the stack of its main thread, even where it hangs in C."""

PHASE_OF_FILE: Mapping[str, str] = {
    "rollout": "rollout",
    "rollouts": "rollout",
    "generation": "rollout",
    "decoder": "rollout",
    "produce": "rollout",
    "remote": "rollout",
    "worker": "rollout",
    "stream": "rollout",
    "foreign": "rollout",
    "http": "rollout",
    "ahead": "rollout",
    "supply": "rollout",
    "scoring": "old_logprob",
    "trainer": "train",
    "gradients": "train",
    "micro_batch": "train",
    "offload": "train",
    "ranks": "train",
    "decode_weights": "weight_sync",
    "weights": "weight_sync",
    "evaluate": "validate",
    "evaluation_rows": "validate",
    "checkpoint_file": "checkpoint",
    "saved_run": "checkpoint",
}
"""File or folder of `engine/` -> canonical phase that its frames are in."""

UNKNOWN = "unknown"
"""Where no frame is owned by a phase."""

_FRAME = re.compile(r'File "[^"]*steptune/engine/(\w+)(?:/\w+)*\.py", line \d+,? in (\w+)')


def phase_of_stack(text: str, *, innermost_first: bool) -> tuple[str, str]:
    """Return the phase of a printed stack and the frame that names it; ``unknown`` and nothing where none does.

    Args:
        text: as `traceback` prints it (innermost last) or `faulthandler` (innermost first).
        innermost_first: which of the two.

    >>> phase_of_stack('  File "/x/steptune/engine/trainer.py", line 9, in update', innermost_first=False)
    ('train', 'trainer.update')
    """
    frames = _FRAME.findall(text)
    for file, function in frames if innermost_first else reversed(frames):
        if file in PHASE_OF_FILE:
            return PHASE_OF_FILE[file], f"{file}.{function}"
    return UNKNOWN, ""
