"""The one error that means: the command line itself is wrong; nothing was read or run. Exit code 2."""

from steptune.core.errors import StepTuneError


class WrongCallError(StepTuneError, ValueError):
    """The arguments contradict each other, or name what the command does not take."""
