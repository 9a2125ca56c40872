"""One arm in its own process: runs steps when told to and says how long each took.

The parent writes ``go N``; the child runs N steps and answers ``done [seconds, ...]``. Between blocks it waits and
uses no core, so that arms can take turns. `python child.py SHAPE ARM_JSON`.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

from arms import Arm  # noqa: E402
from same_work import job, lengths_of  # noqa: E402


class Turns:
    """The child's end of the conversation."""

    def __init__(self) -> None:
        self.allowed = 0
        self.took: list[float] = []

    def wait(self, settle: Callable[[], None] = lambda: None) -> bool:
        """Block until a step may run; False when the parent is done. ``settle`` runs before any waiting."""
        if self.allowed == 0:
            settle()
            say("done" if self.took else "ready", self.took)
            self.took = []
            words = sys.stdin.readline().split()
            if not words:
                return False
            self.allowed = int(words[1])
        self.allowed -= 1
        return True


def say(word: str, numbers: list[float]) -> None:
    """Answer the parent on the real standard output."""
    print(word, json.dumps(numbers), file=sys.__stdout__, flush=True)


def main() -> int:
    """Run one arm until the parent hangs up."""
    shape, arm = sys.argv[1], Arm.model_validate_json(sys.argv[2])
    sys.stdout = sys.stderr
    spec = job(shape)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arm.side == "trl":
            from theirs import run
        else:
            from ours import run
        run(spec, arm.settings, lengths_of(shape), Path(folder), Turns())
    return 0


if __name__ == "__main__":
    sys.exit(main())
