"""The one error that means: the command line itself is wrong; nothing was read or run. Exit code 2."""

from steptune.core.errors import StepTuneError, explain


class WrongCallError(StepTuneError, ValueError):
    """The arguments contradict each other, or name what the command does not take."""


def check_count(flag: str, count: int | None) -> None:
    """Raise WrongCallError where a count that was given is below 1."""
    if count is not None and count < 1:
        hint = "leave it out for the input's own"
        raise WrongCallError(explain(f"`{flag}` is a count", got=f"`{count}`", allowed="1 or more", hint=hint))
