"""The frameworks a job may name, and where they keep what they cache."""

import os
from importlib.util import find_spec
from pathlib import Path

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.cli.streams import say
from steptune.core.errors import JobError, explain
from steptune.core.framework import Framework
from steptune.core.job import JobSpec
from steptune.testing.fake_framework import FakeFramework


def framework_of(job: JobSpec) -> Framework:
    """Return the framework that ``job`` names."""
    if job.framework == "fake":
        return FakeFramework()
    return EmbeddedFramework(cache_dir=cache_dir(), say=say)


def running_framework_of(job: JobSpec) -> Framework:
    """Return the framework that ``job`` names, if it can launch runs here.

    Raises:
        JobError: the embedded engine has no torch.
    """
    if job.framework != "fake":
        need_torch()
    return framework_of(job)


def need_torch() -> None:
    """Refuse a Python without torch.

    Raises:
        JobError: the embedded engine has no torch.
    """
    if find_spec("torch") is None:
        raise JobError(
            explain(
                "the embedded engine needs torch",
                got="a Python without it",
                allowed="torch 2.6 or newer",
                hint="`pip install '.[engine]'` in the project's folder, or `make tune`",
            )
        )


def cache_dir() -> Path:
    """Return the user's cache folder for SFT starts (`XDG_CACHE_HOME`, else `~/.cache`)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steptune"
