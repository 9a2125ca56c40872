"""Where the fixtures are, and how to read one."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from steptune.core.phase import Role, SpanKind, is_child
from steptune.core.profile import PhaseTime, Profile
from steptune.readers.frameworks import framework
from steptune.readers.read_paste import read_paste
from steptune.readers.step import StepRecord

FIXTURES = Path(__file__).parent / "fixtures"

WITH_STEPS = ("verl_sync.txt", "verl_sync_wrapped.txt", "verl_fully_async.txt", "nemo_rl_async.txt", "nemo_rl_sync.txt")
"""Real logs with at least one whole step."""


def profile_of(name: str) -> Profile:
    return profile_at([FIXTURES / name])


def profile_at(paths: Sequence[Path]) -> Profile:
    profile = read_paste(paths).profile
    assert profile is not None
    return profile


def steps_in(lines: Iterable[str], name: str) -> Iterator[StepRecord]:
    """Steps of raw lines, one at a time."""
    return framework(name).read_steps(enumerate(lines, start=1), "<text>")


def seconds(profile: Profile, role: Role, phase: str, kind: SpanKind) -> float:
    found = profile.role(role)
    assert found is not None
    return sum(p.seconds.value for p in found.phases if p.phase == phase and p.kind is kind)


def assert_is_sound(profile: Profile) -> None:
    """No phase longer than its role's time, no child longer than the phases it is in, everything with an origin."""
    for role in profile.roles:
        assert role.wall_s > 0
        for phase in role.phases:
            assert 0 <= phase.seconds.value <= role.wall_s
            assert phase.origin is not None
            assert not is_child(phase.phase) or _fits(phase, role.phases)


def _fits(child: PhaseTime, phases: tuple[PhaseTime, ...]) -> bool:
    parent = child.phase.split("/")[0]
    room = sum(p.seconds.value for p in phases if p.phase == parent)
    return parent == "unattributed" or child.seconds.value <= room
