"""Settings of the whole suite: no deadlines (the machine is shared), the same examples every time, quiet threads."""

import os

# must be set before torch is loaded: threads that spin while they wait slow every neighbour down
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

from hypothesis import settings

settings.register_profile("steptune", deadline=None, derandomize=True)
settings.load_profile("steptune")
