"""What an answer must and must not say of one public post: typed, written before the readers that are held to it.

A post is judged on the `Diagnosis` and on its text. What is absent is a miss; what the input does not support is a
false claim, which weighs more: a tool that is silent costs a minute, one that invents costs a week.
"""

import fnmatch
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from steptune.core.comparison import Comparison
from steptune.core.estimate import Estimate
from steptune.core.finding import Diagnosis, Finding, FindingKind, PhaseRow
from steptune.core.records import Record

Range = tuple[float, float]
"""Lowest and highest value that is right, both included."""

SPEED_CLAIMS = (
    r"\b\d+(?:\.\d+)?\s?(?:x|×|times|%|percent)\s+(?:faster|quicker|speed-?up|(?:more|higher) throughput)",
    r"speed-?up\s+(?:of|by)\s+(?:about\s+|~\s?)?\d",
)
"""Ways to state a gain in speed; forbidden wherever the input holds no timing."""

SERIES_TOLERANCE_FRAC = 1e-3
"""Relative distance at which a value read counts as the value written: logs round to three digits."""

MISS = "MISS"
FALSE_CLAIM = "FALSE CLAIM"


class WantedFinding(Record):
    """A finding that must be there: ``WantedFinding(codes=("lint/areal/*",), says=("8", "allocation_mode"))``."""

    codes: tuple[str, ...]
    """Shell patterns; any of them."""
    says: tuple[str, ...] = ()
    """Regular expressions, all found in its title, evidence or remedies."""
    share: Range | None = None
    """Part of the step, 0..1."""
    ceiling_s: Range | None = None
    """Step time in seconds with this cost gone."""


class WantedPhase(Record):
    """A row of the phase table: ``WantedPhase(key="generate", seconds=(19530.0, 19590.0))``."""

    key: str
    """As the log spells it; a row whose key ends in it is meant."""
    seconds: Range | None = None
    is_wait: bool | None = None
    if_free_s: Range | None = None
    """Step time in seconds with this row gone."""


class Expectation(Record):
    """One post and what a knowing engineer would demand of an answer to it."""

    id: str
    files: tuple[str, ...] = ()
    """Names of the fixtures, handed in together; ``<id>.txt`` when empty."""
    source: str = ""
    why: str
    """Why this is the right answer, in one line."""
    timing: Literal["none", "step", "phases"]
    """What the input holds: nothing timed, only whole steps (a progress bar), or phases. Without phases no claim of
    where the time goes may be made."""
    framework: tuple[str, ...] = ()
    """Any of these; empty: not judged."""
    findings: tuple[WantedFinding, ...] = ()
    bottleneck: WantedFinding | None = None
    """What the largest bottleneck must be."""
    remedies: tuple[tuple[str, ...], ...] = ()
    """Each: regular expressions of which one must be found in a remedy."""
    texts: tuple[str, ...] = ()
    """Regular expressions the text answer must hold."""
    phases: tuple[WantedPhase, ...] = ()
    series: dict[str, tuple[float, ...]] = {}
    """Values that must be among the points of a series."""
    step_time_s: Range | None = None
    switch_on: bool = False
    """Whether it must be said how to log what is missing."""
    forbid_codes: tuple[str, ...] = ()
    forbid_texts: tuple[str, ...] = ()
    forbid_lines: tuple[str, ...] = ()
    """Regular expressions that no line to paste may hold."""
    forbid_series: dict[str, tuple[float, ...]] = {}
    """Values that would be misread numbers."""


class ComparisonExpectation(Record):
    """What `compare` must say of two posts."""

    id: str
    a: str
    b: str
    why: str
    verdicts: tuple[str, ...]
    raw_step_ratio: Range | None = None
    throughput_ratio: Range | None = None
    work: dict[str, Range | None] = {}
    """Parts of the work that differ, as regular expressions; the range is that of a / b."""
    settings: tuple[str, ...] = ()
    """Endings of keys that must be listed as different."""
    findings: tuple[WantedFinding, ...] = ()
    texts: tuple[str, ...] = ()
    forbid_texts: tuple[str, ...] = ()


class Expectations(Record):
    """A file of expectations."""

    post: tuple[Expectation, ...] = ()
    comparison: tuple[ComparisonExpectation, ...] = ()


def load(path: Path) -> Expectations:
    """Read a TOML file of expectations, in the order of the file."""
    return Expectations.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


def check(expected: Expectation, diagnosis: Diagnosis, text: str) -> list[str]:
    """Return every miss and every false claim of one answer, each a line; an empty list is a right answer."""
    return [
        *(f"{MISS}: {m}" for m in misses(expected, diagnosis, text)),
        *(f"{FALSE_CLAIM}: {c}" for c in false_claims(expected, diagnosis, text)),
    ]


def check_comparison(expected: ComparisonExpectation, comparison: Comparison) -> list[str]:
    """Return every miss and every false claim of one comparison, like `check`."""
    text = "\n".join(strings_of(comparison.model_dump(mode="json")))
    return [
        *(f"{MISS}: {m}" for m in _comparison_misses(expected, comparison, text)),
        *(f"{FALSE_CLAIM}: says {p!r}" for p in expected.forbid_texts if _found(p, text)),
    ]


def misses(expected: Expectation, diagnosis: Diagnosis, text: str) -> Iterator[str]:
    """Yield what the answer lacks."""
    paste = diagnosis.paste
    if expected.framework and paste.framework not in expected.framework:
        yield f"framework is {paste.framework}, not one of {expected.framework}"
    for wanted in expected.findings:
        yield from _finding_misses(wanted, diagnosis.findings)
    if expected.bottleneck is not None:
        yield from _bottleneck_misses(expected.bottleneck, diagnosis)
    for phase in expected.phases:
        yield from _phase_misses(phase, diagnosis.phases)
    remedies = "\n".join(_remedy_text(f) for f in diagnosis.findings)
    yield from (f"no remedy says any of {keys}" for keys in expected.remedies if not _any_found(keys, remedies))
    yield from (f"the text does not say {p!r}" for p in expected.texts if not _found(p, text))
    for name, values in expected.series.items():
        read = _values(diagnosis, name)
        yield from (f"{name} was not read as {v}: {read}" for v in values if not _holds(read, v))
    if expected.step_time_s is not None:
        step_time = None if paste.profile is None else paste.profile.step_time
        yield from _range_miss("step time", step_time, expected.step_time_s)
    if expected.switch_on and not diagnosis.switch_on:
        yield "does not say what to switch on"


def false_claims(expected: Expectation, diagnosis: Diagnosis, text: str) -> Iterator[str]:
    """Yield what the answer claims without support."""
    for finding in diagnosis.findings:
        yield from (f"{finding.code}: {finding.title}" for p in expected.forbid_codes if _matches(finding.code, p))
        lines = "\n".join(line for remedy in finding.remedies for line in remedy.lines)
        yield from (f"advises {p!r} ({finding.code})" for p in expected.forbid_lines if _found(p, lines))
    yield from (f"says {p!r}" for p in expected.forbid_texts if _found(p, text))
    for name, values in expected.forbid_series.items():
        read = _values(diagnosis, name)
        yield from (f"{name} was misread as {v}" for v in values if v in read)
    if expected.timing != "phases":
        yield from _claims_without_timing(diagnosis, text)
    if expected.timing == "none" and (diagnosis.phases or diagnosis.paste.profile is not None):
        yield "a timeline from an input without timing"


def _claims_without_timing(diagnosis: Diagnosis, text: str) -> Iterator[str]:
    for finding in diagnosis.findings:
        if finding.kind is FindingKind.BOTTLENECK:
            yield f"a bottleneck without timing: {finding.code}"
        elif finding.share is not None or finding.ceiling is not None:
            yield f"a share or a ceiling without timing: {finding.code}"
        if any(remedy.step_time is not None for remedy in finding.remedies):
            yield f"a forecast without timing: {finding.code}"
    yield from (f"a bottleneck without timing: {b.kind}" for b in diagnosis.bottlenecks)
    yield from (f"a ceiling without timing: {line}" for line in diagnosis.cannot_help)
    yield from (f"a gain in speed without timing: {m}" for p in SPEED_CLAIMS for m in re.findall(p, text, re.I))


def _finding_misses(wanted: WantedFinding, findings: Iterable[Finding]) -> Iterator[str]:
    of_code = [f for f in findings if any(_matches(f.code, p) for p in wanted.codes)]
    if not of_code:
        yield f"no finding {wanted.codes}"
        return
    flaws = [list(_flaws(wanted, f)) for f in of_code]
    yield from min(flaws, key=len)


def _flaws(wanted: WantedFinding, finding: Finding) -> Iterator[str]:
    text = finding_text(finding)
    yield from (f"{finding.code} does not say {p!r}" for p in wanted.says if not _found(p, text))
    if wanted.share is not None:
        yield from _range_miss(f"share of {finding.code}", finding.share, wanted.share)
    if wanted.ceiling_s is not None:
        yield from _range_miss(f"ceiling of {finding.code}", finding.ceiling, wanted.ceiling_s)


def _bottleneck_misses(wanted: WantedFinding, diagnosis: Diagnosis) -> Iterator[str]:
    held = [f for f in diagnosis.findings if f.kind is FindingKind.BOTTLENECK]
    if not held:
        yield f"no bottleneck, expected {wanted.codes}"
        return
    largest = max(held, key=lambda f: -1.0 if f.share is None else f.share.value)
    # children of one cause share its seconds: any of the wanted kinds that ties with the largest counts
    tied = [f for f in held if f.share == largest.share or f is largest]
    yield from _finding_misses(wanted, tied)


def _phase_misses(wanted: WantedPhase, rows: Iterable[PhaseRow]) -> Iterator[str]:
    of_key = [r for r in rows if r.key.endswith(wanted.key)]
    if not of_key:
        yield f"no phase {wanted.key!r}"
        return
    row = of_key[0]
    if wanted.seconds is not None:
        yield from _range_miss(f"seconds of {wanted.key}", row.seconds, wanted.seconds)
    if wanted.is_wait is not None and row.is_wait is not wanted.is_wait:
        yield f"{wanted.key} is {'a wait' if row.is_wait else 'busy'}"
    if wanted.if_free_s is not None:
        yield from _range_miss(f"step time without {wanted.key}", row.if_free, wanted.if_free_s)


def _comparison_misses(expected: ComparisonExpectation, comparison: Comparison, text: str) -> Iterator[str]:
    if str(comparison.verdict) not in expected.verdicts:
        yield f"verdict is {comparison.verdict}, not one of {expected.verdicts}"
    if expected.raw_step_ratio is not None:
        yield from _range_miss("raw step ratio", comparison.raw_step_ratio, expected.raw_step_ratio)
    if expected.throughput_ratio is not None:
        yield from _range_miss("throughput ratio", comparison.throughput_ratio, expected.throughput_ratio)
    for pattern, ratio in expected.work.items():
        held = [w for w in comparison.work if _found(pattern, w.what)]
        if not any(ratio is None or (w.a and w.b and ratio[0] <= w.a / w.b <= ratio[1]) for w in held):
            yield f"work: {pattern!r} is not listed as different by {ratio}"
    for key in expected.settings:
        if not any(s.key.endswith(key) for s in comparison.settings):
            yield f"setting {key} is not listed as different"
    for wanted in expected.findings:
        yield from _finding_misses(wanted, comparison.findings)
    yield from (f"does not say {p!r}" for p in expected.texts if not _found(p, text))


def finding_text(finding: Finding) -> str:
    """Return everything a finding says, one line each."""
    return "\n".join([finding.code, finding.title, *(e.text for e in finding.evidence), _remedy_text(finding)])


def strings_of(value: Any) -> Iterator[str]:
    """Yield every string inside a dumped record."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from strings_of(child)
    elif isinstance(value, list):
        for child in value:
            yield from strings_of(child)


def _remedy_text(finding: Finding) -> str:
    return "\n".join(part for remedy in finding.remedies for part in (remedy.text, *remedy.lines))


def _range_miss(what: str, estimate: Estimate | None, allowed: Range) -> Iterator[str]:
    if estimate is None:
        yield f"{what} is missing, expected {allowed}"
    elif not allowed[0] <= estimate.value <= allowed[1]:
        yield f"{what} is {estimate.value:.4g}, expected {allowed}"


def _values(diagnosis: Diagnosis, name: str) -> list[float]:
    return [v for s in diagnosis.paste.series if name in (s.name, s.key) for v in s.finite()]


def _holds(values: list[float], wanted: float) -> bool:
    return any(abs(v - wanted) <= SERIES_TOLERANCE_FRAC * abs(wanted) for v in values)


def _matches(code: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(code, pattern)


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None


def _any_found(patterns: Iterable[str], text: str) -> bool:
    return any(_found(p, text) for p in patterns)
