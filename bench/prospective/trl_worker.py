"""Runs in TRL's environment: imports once, then forks an arm for every configuration asked for.

`python trl_worker.py SOCKET`; the parent sends ``(arm, job, settings)`` and the arm dials the socket itself. Importing
TRL takes ten seconds, a fork none. Surprise: torch must not have computed anything before a fork, as its threads would
be missing in the child; so nothing but imports happens here.
"""

import os
import signal
import sys
import warnings
from multiprocessing.connection import Client
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "vs_trl"), str(HERE.parents[1] / "src")]
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_WAIT_POLICY": "passive"}

from prospective.trl_arm import run_arm  # noqa: E402


def main() -> int:
    """Fork arms until the parent hangs up."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for arms
    address = sys.argv[1]
    with Client(address, "AF_UNIX") as line:
        line.send(("worker", "", os.getpid()))
        while True:
            try:
                arm, job, settings = line.recv()
            except EOFError:
                return 0
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                line.close()
                run_arm(address, arm, job, settings)
                os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
