"""Puts `bench/` on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "bench"))
