"""Started as an engine run by a test: leaves a sleeping daemon behind that no parent and no session ties to it.

The daemon's process id goes to `daemon.pid` in the run's folder; then the run dies as one that crashes.
"""

import os
import sys
from pathlib import Path

SLEEP = ["sleep", "600"]


def main() -> None:
    if os.fork() == 0:
        os.setsid()
        daemon = os.fork()
        if daemon == 0:
            os.execvp(SLEEP[0], SLEEP)
        written = Path(sys.argv[2], "daemon.new")
        written.write_text(str(daemon))
        written.rename(written.with_suffix(".pid"))
        os._exit(0)
    os.wait()
    os._exit(1)


if __name__ == "__main__":
    main()
