"""Works for a while under a quota of its own and prints the cores it got: `busy.py WAY CORES SECONDS`.

With the way `forever` it limits itself by duty cycle, prints its controller's id and works until it is killed.
"""

import sys
import time

from steptune.engine.quota.duty import DutyQuota
from steptune.engine.quota.limit import limit_self


def say(value: float) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


way, cores, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
quota = DutyQuota(cores=cores, num_threads=1) if way == "forever" else limit_self(cores, way)
if isinstance(quota, DutyQuota):
    say(quota.controller.pid)


def work(stop_s: float) -> None:
    while time.monotonic() < stop_s:
        pass


# a duty cycle's controller needs a moment to start; a group holds at once
work(time.monotonic() + (0.0 if way.startswith("cgroup") else 0.3))
start_s, start_cpu_s = time.monotonic(), time.process_time()
work(start_s + seconds)
say((time.process_time() - start_cpu_s) / (time.monotonic() - start_s))
quota.release()
