"""Whether anything can be compiled here, asked before a run starts. Needs no torch: the tuner asks too.

Inductor writes C++ and calls the compiler named by CXX, `g++` where that is not set, when the first graph is made: in
the middle of a run's start, with a page of its own errors.
"""

import os
import shutil

from steptune.core.errors import JobError, explain
from steptune.core.job import JobSpec

COMPILE = "compile"
"""The knob."""

DEFAULT_COMPILER = "g++"
"""What torch 2.13 calls where CXX is not set (`torch._inductor.config.cpp.cxx`)."""

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Where inductor keeps what it has compiled; its own choice is a folder of the machine's for temporary files."""


def asks_for_compile(job: JobSpec) -> bool:
    """Return whether the owner lets `compile` move, or pins it: only then is it priced, which takes a while."""
    return COMPILE in job.knobs.allow or job.knobs.pin.get(COMPILE) is True


def compiler_problem() -> str | None:
    """Return why nothing can be compiled here, or None."""
    wanted = os.environ.get("CXX", DEFAULT_COMPILER)
    return None if shutil.which(wanted) else f"no C++ compiler `{wanted}`"


def check_compiler() -> None:
    """Refuse `compile` where it cannot work.

    Raises:
        JobError: there is no C++ compiler.
    """
    problem = compiler_problem()
    if problem is not None:
        raise JobError(
            explain(
                "`compile` needs a C++ compiler",
                got=problem,
                allowed=f"`{DEFAULT_COMPILER}`, or the one that the variable CXX names",
                hint="install it (`apt-get install g++`), or leave `compile` out",
            )
        )
