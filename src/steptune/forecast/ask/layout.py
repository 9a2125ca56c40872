"""The measured run as the step model's cluster: whose devices, how many, and how the sides met."""

import math
from dataclasses import dataclass

from steptune.core.errors import explain
from steptune.core.paste import Paste
from steptune.core.phase import Role
from steptune.core.profile import Origin, Profile
from steptune.forecast.ask.question import Question
from steptune.forecast.curve import ForecastError


class DeviceCountError(ForecastError):
    """The number of devices that was given is not the one that the log states."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """``Layout(train=16, rollout=16, is_colocated=True, replicas=16, ...)``: sixteen devices taking turns."""

    train: int
    """Devices of the trainer."""
    rollout: int
    """Devices of the rollout: the same ones when `is_colocated`."""
    is_colocated: bool
    is_placement_stated: bool
    replicas: int
    are_replicas_stated: bool
    max_lag: int
    """0 is synchronous."""
    where: str
    """Who says how many devices."""
    origin: Origin | None
    """The line that does; None where it is several settings, or the user."""

    @property
    def num_devices(self) -> int:
        """Devices held."""
        return self.train if self.is_colocated else self.train + self.rollout


def layout_of(paste: Paste, profile: Profile, question: Question) -> Layout:
    """Return the measured layout.

    Raises:
        ForecastError: the number of devices is not stated, or not which side has how many where each has its own.
        DeviceCountError: the log states another number than the one given.
    """
    train, rollout = (_of_role(profile, role, question) for role in (Role.TRAINER, Role.ROLLOUT))
    has_split = "train_devices" in question.given or "rollout_devices" in question.given
    is_colocated = profile.schedule == "sync" and profile.placement != "disaggregated" and not has_split
    if is_colocated:
        train = rollout = _shared(paste, train, rollout, question)
    if train is None or rollout is None:
        raise _refused(
            "each side has its own devices here, and the log does not say how many",
            got=f"trainer {train or 'unknown'}, rollout {rollout or 'unknown'}",
            allowed="both numbers",
            hint="add `--given train_devices=N --given rollout_devices=N`, or the launch script beside the log",
        )
    where, origin = _where(paste, question, profile)
    _check_count(question, train if is_colocated else train + rollout, where)
    stated = question.given.get("replicas") or _replicas_of(profile)
    replicas = round(stated) if stated else rollout
    if replicas < 1 or rollout % replicas:
        raise _refused(
            "the rollout's devices do not make whole replicas",
            got=f"{rollout} devices, {replicas} replicas",
            allowed="replicas that divide the devices",
            hint="add `--given replicas=N`",
        )
    return Layout(
        train=train,
        rollout=rollout,
        is_colocated=is_colocated,
        is_placement_stated=profile.placement is not None or has_split,
        replicas=replicas,
        are_replicas_stated=bool(stated),
        max_lag=0 if profile.schedule == "sync" else _lag(profile, question),
        where=where,
        origin=origin,
    )


def _of_role(profile: Profile, role: Role, question: Question) -> int | None:
    given = question.given.get(f"{'train' if role is Role.TRAINER else 'rollout'}_devices")
    held = profile.role(role)
    number = given if given is not None else (held.num_devices if held is not None else None)
    return None if number is None or not math.isfinite(number) or number < 1 else round(number)


def _check_count(question: Question, stated: int, where: str) -> None:
    """Raise DeviceCountError where the log says how many devices there were, and the caller says otherwise."""
    if question.measured_devices is not None and question.measured_devices != stated:
        raise DeviceCountError(
            explain(
                "the number of devices contradicts the log",
                got=f"`--num-devices {question.measured_devices}` and {stated} ({where})",
                allowed="one of both: it is for a log that does not say how many it ran on",
                hint=f"leave it out; to ask about {question.measured_devices} devices use `--on`",
            )
        )


def _replicas_of(profile: Profile) -> int | None:
    held = profile.role(Role.ROLLOUT)
    return None if held is None else held.num_replicas


def _shared(paste: Paste, train: int | None, rollout: int | None, question: Question) -> int:
    claimed = None if paste.devices is None else paste.devices.count
    number = train or rollout or claimed or question.measured_devices
    if number is None:
        raise _refused(
            "the log does not say on how many devices it ran",
            got="no device count",
            allowed="a number of devices of the measured run",
            hint="add `--num-devices N`, or the launch script beside the log",
        )
    return number


def _lag(profile: Profile, question: Question) -> int:
    """Return the most updates that samples were behind in an asynchronous run.

    Raises:
        ForecastError: neither the log nor the user says.
    """
    stated = question.given.get("max_lag")
    if stated is None and profile.staleness_mean is not None:
        stated = max(math.ceil(profile.staleness_mean), 1)
    if stated is None:
        raise _refused(
            "the log is of an asynchronous run and does not say how far it ran ahead",
            got="no staleness",
            allowed="the most updates that samples are behind",
            hint="add `--given max_lag=N`",
        )
    return round(stated)


def _where(paste: Paste, question: Question, profile: Profile) -> tuple[str, Origin | None]:
    is_said = paste.devices is not None or any(role.num_devices for role in profile.roles)
    if "train_devices" in question.given or "rollout_devices" in question.given or not is_said:
        return "given", None
    if paste.devices is None or any(role.num_devices for role in profile.roles):
        return "the log's settings", None
    origin = paste.devices.origin
    return line_text(origin), origin


def line_text(origin: Origin) -> str:
    """Return a line as an answer names it: ``run.log:12 timing_s/gen``."""
    return f"{origin.path.rsplit('/', 1)[-1]}:{origin.line} {origin.key}".rstrip()


def _refused(what: str, *, got: str, allowed: str, hint: str) -> ForecastError:
    return ForecastError(explain(what, got=got, allowed=allowed, hint=hint))
