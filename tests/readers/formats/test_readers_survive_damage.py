"""Whatever happens to a paste on its way, a reader neither crashes nor books more than there is."""

from functools import cache

from fixture_steps import FIXTURES
from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.readers.facts import JobFacts
from steptune.readers.frameworks import framework

NAMES = {"prime": "prime_rl", "miles": "slime"}
FILES = sorted(
    path.name
    for path in FIXTURES.glob("*.txt")
    if path.name.startswith(("trl_", "prime_rl_", "slime_", "miles_", "skyrl_", "openrlhf_", "areal_", "torchforge_"))
)
DAMAGE = st.tuples(
    st.integers(0, 5000), st.sampled_from(["", "\n", "'", "{", "}", "|", "1e999", "-", "nan", "\0", "│", ":"])
)


@cache
def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(FILES), st.lists(DAMAGE, max_size=20), st.integers(0, 5000), st.integers(0, 5000))
def test_a_damaged_log_never_crashes_its_reader(name: str, damage: list[tuple[int, str]], head: int, tail: int) -> None:
    text = text_of(name)[head % 400 : max(len(text_of(name)) - tail % 900, 0)]
    for offset, piece in damage:
        at = offset % (len(text) + 1)
        text = text[:at] + piece + text[at + 1 :]
    row = framework(NAMES.get(name.split("_")[0], name.split("_")[0]))
    steps = list(row.read_steps(enumerate(text.splitlines(keepends=True), start=1), name))
    reading = row.to_reading(steps, JobFacts(version=None, settings={}))
    for role in () if reading is None or reading.profile is None else reading.profile.roles:
        assert role.wall_s > 0
        assert all(0 <= phase.seconds.value <= role.wall_s * 1.0001 for phase in role.phases)
