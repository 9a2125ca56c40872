"""Errors a user can cause, and the one sentence each of them is written in.

Tree::

    StepTuneError
    ├── JobError(ValueError)          the job file is wrong
    ├── LimitError(ValueError)        no configuration can meet the owner's limits
    ├── HealthError(RuntimeError)     the run does not learn, so tuning it is pointless
    ├── TrialError(RuntimeError)      a launched run died, hung or reported nonsense
    │   ├── KilledError               it was killed from outside
    │   └── OutOfMemoryError(MemoryError)  it asked for memory that it did not get
    ├── BudgetSpentError(RuntimeError)  what was about to run would outlast the budget
    ├── ModelError(ValueError)        a model folder cannot be used
    ├── DeviceError(ValueError)       the facts of a device are not known
    ├── StoreError(RuntimeError)      the run folder is damaged, foreign or in use
    └── ReadError(ValueError)         a log or config could not be read
        └── MixedJobsError            the files are of different jobs
"""

from collections.abc import Iterable
from difflib import get_close_matches


class StepTuneError(Exception):
    """Base of everything a user can fix; the message ends in a hint when there is one."""


class JobError(StepTuneError, ValueError):
    """The job file asks for something that cannot be."""


class LimitError(StepTuneError, ValueError):
    """No configuration, not even the baseline, meets a limit the owner set."""


class HealthError(StepTuneError, RuntimeError):
    """The run is sick (no reward variance, NaN, collapse); learning must be fixed before speed."""


class TrialError(StepTuneError, RuntimeError):
    """A launched run died, hung or reported something impossible."""


class KilledError(TrialError):
    """A launched run was killed from outside, by nobody of ours; if by the kernel for memory, `OutOfMemoryError`."""


class OutOfMemoryError(TrialError, MemoryError):
    """A launched run asked for memory that it did not get."""


class BudgetSpentError(StepTuneError, RuntimeError):
    """The budget ends before what was about to run would."""


class ModelError(StepTuneError, ValueError):
    """A model folder is incomplete, damaged, or of a kind the engine does not have."""


class DeviceError(StepTuneError, ValueError):
    """A device that is not in the table, or a figure of it that nobody published."""


class StoreError(StepTuneError, RuntimeError):
    """The run folder is damaged, from another version, full or held by another session."""


class ReadError(StepTuneError, ValueError):
    """A log or configuration could not be read."""


class MixedJobsError(ReadError):
    """The files are of different jobs, and no answer about one job can be made of them."""


def named_error(name: str) -> type[StepTuneError]:
    """Return the class of that name, as another process has told it; the base where there is none."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, StepTuneError) else StepTuneError


def explain(what: str, *, got: object, allowed: str, hint: str) -> str:
    """Return the house sentence: what is wrong, the value got, what is allowed, what to do.

    >>> explain("`budget.max_trials` must be positive", got=0, allowed="1 or more", hint="use 6")
    '`budget.max_trials` must be positive, got 0; allowed: 1 or more; hint: use 6'
    """
    return f"{what}, got {got}; allowed: {allowed}; hint: {hint}"


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return a hint naming the spelling closest to ``word``, or the whole list when none is close."""
    names = sorted(allowed)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else f"use one of {', '.join(names)}"
