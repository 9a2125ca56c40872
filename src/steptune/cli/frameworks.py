"""The frameworks a job may name, and where they keep what they cache."""

import os
import sys
from pathlib import Path

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.core.framework import Framework
from steptune.core.job import JobSpec
from steptune.testing.fake_framework import FakeFramework


def framework_of(job: JobSpec) -> Framework:
    """Return the framework that ``job`` names."""
    if job.framework == "fake":
        return FakeFramework()
    return EmbeddedFramework(cache_dir=cache_dir(), say=lambda line: print(line, file=sys.stderr))


def cache_dir() -> Path:
    """Return the user's cache folder for SFT starts (`XDG_CACHE_HOME`, else `~/.cache`)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steptune"
