import math
import tomllib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.core.paste import Excerpt, ExcerptKind, Paste, Setting
from steptune.core.profile import Origin
from steptune.memory.advise import memory_findings
from steptune.memory.figures import read_figures
from steptune.memory.tables import remedy_rules

CASES = tomllib.loads((Path(__file__).parent / "oom_texts.toml").read_text(encoding="utf-8"))["case"]
TEXTS = [case["text"] for case in CASES]
FRAMES = sorted({frame for case in CASES for frame in case["frames"]})
KEYS = sorted({key for rule in remedy_rules() for move in rule.keys for key in (move.key, *move.when)})
ORIGIN = Origin(path="x", line=1, key="")


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A real text, cut at both ends, with a stranger in the middle."""
    text = draw(st.sampled_from(TEXTS))
    start, middle, end = sorted(draw(st.integers(0, len(text))) for _ in range(3))
    return text[start:middle] + draw(st.text(max_size=8)) + text[middle:end]


@st.composite
def setting(draw: st.DrawFn) -> Setting:
    value = draw(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)))
    return Setting(key=draw(st.sampled_from(KEYS)), value=value, text=str(value), layer="override", origin=ORIGIN)


EXCERPTS = st.builds(
    Excerpt,
    kind=st.sampled_from(list(ExcerptKind)),
    text=st.one_of(mangled(), st.sampled_from(TEXTS)),
    origin=st.just(ORIGIN),
    context=st.lists(st.sampled_from(FRAMES), max_size=4).map(tuple),
)
FRAMEWORKS = (None, "verl", "nemo_rl", "trl", "slime", "skyrl", "openrlhf", "areal", "prime_rl", "unsloth", "nobody")


@settings(max_examples=100)
@given(
    st.lists(EXCERPTS, max_size=4).map(tuple), st.lists(setting(), max_size=6).map(tuple), st.sampled_from(FRAMEWORKS)
)
def test_any_texts_and_settings_are_answered(
    excerpts: tuple[Excerpt, ...], given_settings: tuple[Setting, ...], framework: str | None
) -> None:
    paste = Paste(paths=("x",), framework=framework, excerpts=excerpts, settings=given_settings)
    for finding in memory_findings(paste):
        assert finding.title
        for remedy in finding.remedies:
            assert remedy.keeps_algorithm or not remedy.lines
            assert not any("nan" in line or "inf" in line.split("=")[-1] for line in remedy.lines)


@settings(max_examples=100)
@given(mangled())
def test_figures_are_finite_or_unknown(text: str) -> None:
    figures = read_figures(text)
    for value in (figures.needed_gib, figures.free_gib, figures.capacity_gib, figures.unallocated_gib):
        assert value is None or math.isfinite(value)
