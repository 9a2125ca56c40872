"""Steps, values and phases of a fixture, as tests of the framework readers compare them."""

from reader_logs import FIXTURES

from steptune.core.paste import Paste
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import Profile
from steptune.readers.frameworks import framework
from steptune.readers.read_paste import read_paste
from steptune.readers.step import StepRecord


def paste_of(name: str) -> Paste:
    return read_paste([FIXTURES / name])


def steps_of(reader: str, name: str) -> list[StepRecord]:
    with (FIXTURES / name).open(encoding="utf-8", newline="\n") as lines:
        return list(framework(reader).read_steps(enumerate(lines, start=1), name))


def steps_in(reader: str, text: str) -> list[StepRecord]:
    return list(framework(reader).read_steps(enumerate(text.splitlines(keepends=True), start=1), "<text>"))


def points(paste: Paste, name: str) -> list[tuple[int | None, float, int]]:
    """Step, value and line of every point of a series."""
    series = paste.get_series(name)
    assert series is not None, f"no series {name}"
    return [(point.step, point.value, point.line) for point in series.points]


def booked(profile: Profile, role: Role) -> dict[tuple[str, SpanKind], float]:
    """Seconds of a role by phase and kind, rounded to milliseconds."""
    found = profile.role(role)
    assert found is not None, f"no role {role}"
    totals: dict[tuple[str, SpanKind], float] = {}
    for phase in found.phases:
        key = (phase.phase, phase.kind)
        totals[key] = round(totals.get(key, 0.0) + phase.seconds.value, 3)
    return totals


def profile_in(paste: Paste) -> Profile:
    assert paste.profile is not None
    return paste.profile
