"""The answer of `steptune diagnose` for a terminal or an issue: the point first, every number with its line.

No colour here (see `paint`), nothing that depends on clock or machine: the same input gives the same text.
"""

from collections.abc import Collection, Iterable, Sequence

from steptune.core.finding import Diagnosis, Finding, FindingKind, Severity
from steptune.core.profile import Profile
from steptune.report.finding_text import evidence_text, finding_lines, remedy_lines, shown_remedies
from steptune.report.headline import Headline, headline, input_notes, name_of
from steptune.report.metrics_text import metric_lines
from steptune.report.neighbour_text import neighbour_lines
from steptune.report.numbers import count_text, estimate_text
from steptune.report.phase_table import phase_lines
from steptune.report.places import Places
from steptune.report.text_page import COMMENT, bullet, section, to_paste, wrapped
from steptune.report.text_table import WIDTH

MAX_FILES = 6
"""Files named in the title."""

SECTIONS = (
    ("Health of the training", (FindingKind.HEALTH, FindingKind.MISMATCH)),
    ("Memory", (FindingKind.MEMORY,)),
    ("Configuration", (FindingKind.LINT,)),
    ("Numbers that cannot be true or are easily misread", (FindingKind.IMPLAUSIBLE,)),
)
"""Sections of findings other than bottlenecks and gaps, in reading order."""


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return the whole answer, lines of at most `WIDTH` characters apart from those to paste."""
    places = Places(diagnosis.paste.paths)
    top = headline(diagnosis)
    lines = [*_title("diagnose", diagnosis, places), *_top(top, diagnosis)]
    lines += section("Where the step goes", phase_lines(diagnosis, places))
    lines += section("What holds it up, and what helps", _bottlenecks(diagnosis, places))
    lines += section("What cannot help", [line for text in diagnosis.cannot_help for line in bullet(text, indent=0)])
    for title, kinds in SECTIONS:
        lines += section(title, _findings(_of(diagnosis, kinds), places))
    lines += section("Metrics over the steps", metric_lines(diagnosis, places))
    lines += section("Nearest published runs", neighbour_lines(diagnosis))
    lines += section("What was not said", _gaps(diagnosis, places, top))
    return "\n".join(lines) + "\n"


def findings_text(diagnosis: Diagnosis, command: str, kinds: Collection[FindingKind]) -> str:
    """Return the findings of some kinds alone, as `lint` and `--only` show them."""
    places = Places(diagnosis.paste.paths)
    found = _of(diagnosis, kinds)
    counts = {severity: sum(f.severity is severity for f in found) for severity in Severity}
    said = ", ".join(count_text(count, noun) for noun, count in _nouns(counts) if count) or "nothing found"
    lines = [*_title(command, diagnosis, places), "", *wrapped(f"{said} in {_read(diagnosis)}")]
    return "\n".join([*lines, "", *_findings(found, places)]).rstrip() + "\n"


def _nouns(counts: dict[Severity, int]) -> list[tuple[str, int]]:
    names = {Severity.FAULT: "fault", Severity.WARNING: "warning", Severity.INFO: "note"}
    return [(names[severity], count) for severity, count in counts.items()]


def _read(diagnosis: Diagnosis) -> str:
    paste = diagnosis.paste
    parts = [paste.framework or "unknown framework", count_text(len(paste.settings), "setting")]
    read = ", ".join([*parts, count_text(paste.num_lines, "line")])
    return "; ".join([read, *input_notes(paste)])


def _title(command: str, diagnosis: Diagnosis, places: Places) -> list[str]:
    return [*wrapped(f"steptune {command}: {files_text(diagnosis.paste.paths, places)}", hang=4), "=" * WIDTH]


def files_text(paths: Sequence[str], places: Places) -> str:
    """Return the names of the files, of many the first and how many more."""
    names = ", ".join(places.file(path) for path in paths[:MAX_FILES]) or "nothing"
    more = len(paths) - MAX_FILES
    return f"{names} and {count_text(more, 'more file')}" if more > 0 else names


def _top(top: Headline, diagnosis: Diagnosis) -> list[str]:
    lines = wrapped(top.facts, hang=2)
    if top.first:
        lines += ["", "FIX THIS FIRST", *(line for f in top.first for line in bullet(f"{f.title} [{f.code}]"))]
        more = count_text(top.num_more_faults, "more fault")
        lines += [f"  and {more} below"] if top.num_more_faults else []
    lead, *rest = top.speed
    lines += ["", *wrapped(lead[:1].upper() + lead[1:], hang=2)]
    lines += [line for text in rest for line in wrapped(text, indent=2)]
    if not top.has_timing and diagnosis.switch_on:
        lines += ["  to get it, switch on:", *to_paste(diagnosis.switch_on, indent=4)]
    return lines


def _bottlenecks(diagnosis: Diagnosis, places: Places) -> list[str]:
    lines: list[str] = []
    for rank, cause in enumerate(_of(diagnosis, (FindingKind.BOTTLENECK,)), start=1):
        told = [e for e in cause.evidence if e.text in cause.title]
        where = next((f" ({place})" for e in told if (place := places.of(e.origin))), "")
        lines += wrapped(f"{rank}. {name_of(cause.code)}: {cause.title}{where}", hang=3)
        lines += bullet(numbers, indent=3) if (numbers := _numbers(cause)) else []
        lines += [
            line
            for e in dict.fromkeys(cause.evidence)
            if e not in told
            for line in bullet(evidence_text(e, places), indent=3)
        ]
        lines += [
            line for r in shown_remedies(cause) for line in remedy_lines(r, indent=3, mark="=>", ceiling=cause.ceiling)
        ]
    return lines


def _numbers(cause: Finding) -> str:
    """Return share and ceiling with their sources; a note that both carry is said once."""
    share, ceiling = cause.share, cause.ceiling
    if share is not None and ceiling is not None and share.note == ceiling.note:
        ceiling = ceiling.model_copy(update={"note": ""})
    facts = [f"share {estimate_text(share)}"] if share is not None else []
    facts += [f"at best a step of {estimate_text(ceiling)}"] if ceiling is not None else []
    return "; ".join(facts)


def _findings(found: Iterable[Finding], places: Places) -> list[str]:
    return [line for finding in found for line in finding_lines(finding, places)]


def _of(diagnosis: Diagnosis, kinds: Collection[FindingKind]) -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding.kind in kinds]


def _gaps(diagnosis: Diagnosis, places: Places, top: Headline) -> list[str]:
    lines = _findings(gaps(diagnosis), places)
    missing = missing_text(diagnosis.paste.profile)
    lines += wrapped(missing, hang=2) if missing else []
    if diagnosis.switch_on and top.has_timing:
        lines += ["to get it, switch on:", *to_paste(diagnosis.switch_on, indent=4)]
    return lines


def gaps(diagnosis: Diagnosis) -> list[Finding]:
    """Return what cannot be said, without advice that only repeats the lines of `switch_on`."""
    said = {line.partition(COMMENT)[0] for line in diagnosis.switch_on}
    found = _of(diagnosis, (FindingKind.NO_CLAIM,))
    return [
        f.model_copy(update={"remedies": tuple(r for r in f.remedies if not said.issuperset(r.lines))}) for f in found
    ]


def missing_text(profile: Profile | None) -> str:
    """Return what the input did not say, names of one group together.

    >>> grouped(["noise", "work.group_size", "work.num_updates"])
    'noise, work (group_size, num_updates)'
    """
    return f"not stated: {grouped(profile.missing)}" if profile and profile.missing else ""


def grouped(names: Iterable[str]) -> str:
    """Return dotted names, their last parts in brackets behind what they share."""
    groups: dict[str, list[str]] = {}
    for name in names:
        group, _, last = name.rpartition(".")
        groups.setdefault(group, []).append(last)
    alone = groups.pop("", [])
    return ", ".join([*alone, *(f"{group} ({', '.join(parts)})" for group, parts in groups.items())])
