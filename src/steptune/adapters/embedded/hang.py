"""In which phase does a run hang? It is asked for its stack before it is stopped.

Surprise: the answer comes through the run's log, because a run that hangs answers no order; a run that does not even
print its stack (it still loads, or waits in the kernel) is in an unknown phase.
"""

import subprocess
import time
from pathlib import Path

from steptune.engine.where import STACK_SIGNAL, phase_of_stack

STACK_S = 2.0
"""Seconds a run gets to print its stack; it takes milliseconds unless the machine swaps."""

LOOK_S = 0.02
"""Seconds between two looks at the log."""

END_OF_STACK = b"in main\n"
"""What the outermost frame but one ends with."""


def where_it_hangs(process: subprocess.Popen[str], log: Path) -> str:
    """Return ``hung in `train` (trainer.update)``, or that the phase is unknown; ``log`` holds the run's stderr."""
    before = log.stat().st_size if log.exists() else 0
    if process.poll() is None:
        process.send_signal(STACK_SIGNAL)
    phase, frame = phase_of_stack(_new_text(log, before), innermost_first=True)
    return f"hung in `{phase}` ({frame})" if frame else "hung in an unknown phase"


def _new_text(log: Path, before: int) -> str:
    """Wait for the stack and return it."""
    deadline_s, text = time.monotonic() + STACK_S, b""
    while time.monotonic() < deadline_s and END_OF_STACK not in text:
        time.sleep(LOOK_S)
        if log.exists():
            text = log.read_bytes()[before:]
    return text.decode("utf-8", errors="replace")
