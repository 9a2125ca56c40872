"""What hand-made tables say: shares of a whole, answers that never end, ratios that are no mismatch, what moved."""

import re
import statistics
from collections.abc import Callable, Iterator, Sequence

from steptune.core.bottleneck import BottleneckKind
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.truncation import MOST_CUT_FRAC
from steptune.diagnose.completion import FINE_ESS_FRAC
from steptune.diagnose.durations import said
from steptune.diagnose.facts import UNKNOWN_NOISE_SHARE_FRAC
from steptune.diagnose.job import Job
from steptune.diagnose.tables import Table, TableRow, tables

PERCENT = 100.0

_OF_WHICH = re.compile(r"of which\s+`?(?P<whole>[^`]+?)`?\s+(?:spends|goes|is)\b", re.IGNORECASE)
_SYNC = re.compile(r"weight|sync|refit|broadcast", re.IGNORECASE)
_CUT_SAMPLING = re.compile(r"top_p\s*=\s*0?\.\d+|top_k\s*=\s*[1-9]\d*")
_VARIANT = re.compile(r"^(?P<label>.+?)\s*\((?P<variant>[^()]+)\)$")


def table_findings(job: Job) -> list[Finding]:
    """Return the findings of every table in the input."""
    rules: tuple[Callable[[Table], Finding | None], ...] = (_sync_share, _unfinished, _sampling, _moved)
    held = tables(job.paste)
    found = [f for table in held for rule in rules if (f := rule(table)) is not None]
    return [_with_one_sync(f, held) if f.code == BottleneckKind.WEIGHT_SYNC_BOUND.value else f for f in found]


def _with_one_sync(finding: Finding, held: Sequence[Table]) -> Finding:
    """Add the seconds of one hand-over, where a table of operations has them."""
    rows = [
        (row, table.column("seconds|\\(s\\)")) for table in held for row in table.rows if _SYNC.search(row.cells[0])
    ]
    timed = [(row, s) for row, column in rows if column is not None and (s := row.number(column)) is not None]
    if not timed:
        return finding
    row, seconds = max(timed, key=lambda entry: entry[1])
    fact = Evidence(text=f"one hand-over: {seconds:g} s ({row.cells[0]})", origin=row.origin)
    return finding.model_copy(update={"evidence": (fact, *finding.evidence)})


def _sync_share(table: Table) -> Finding | None:
    """A column "of which X spends in weight copies" beside the column X."""
    part = table.column(_OF_WHICH.pattern)
    named = _OF_WHICH.search(table.heading[part]) if part is not None else None
    if part is None or named is None or not _SYNC.search(table.heading[part]):
        return None
    whole = next((i for i, name in enumerate(table.heading) if i != part and name.strip("` ") == named["whole"]), None)
    pairs = [(row, p, w) for row, p, w in _pairs(table, part, whole) if 0 < p <= w]
    if not pairs:
        return None
    shares = [p / w for _, p, w in pairs]
    middle = statistics.median(shares)
    if middle < UNKNOWN_NOISE_SHARE_FRAC:
        return None
    facts = tuple(
        Evidence(text=f"{said(p)} of {said(w)} ({p / w:.0%}): {row.text}", origin=row.origin) for row, p, w in pairs
    )
    title = (
        f"Weight copies take {min(shares):.0%} to {max(shares):.0%} of the run: their seconds stay the same "
        f"({said(min(p for _, p, _ in pairs))} to {said(max(p for _, p, _ in pairs))}) while the rest shrinks"
    )
    share = Estimate(
        value=middle,
        low=min(shares),
        high=max(shares),
        unit="frac",
        source=Source.DERIVED,
        n=len(shares),
        note="of the whole run; smallest, median and largest over the table's rows",
    )
    return Finding(
        code=BottleneckKind.WEIGHT_SYNC_BOUND.value,
        kind=FindingKind.BOTTLENECK,
        severity=Severity.WARNING,
        title=title,
        evidence=facts,
        share=share,
    )


def _pairs(table: Table, part: int, whole: int | None) -> Iterator[tuple[TableRow, float, float]]:
    for row in table.rows:
        p, w = row.number(part), None if whole is None else row.number(whole)
        if p is not None and w is not None:
            yield row, p, w


def _unfinished(table: Table) -> Finding | None:
    """A column of truncated answers in percent; an effective sample size beside it that looks fine."""
    cut, ess, done = table.column(r"trunc\w*\s*%|clip\w*\s*%"), table.column(r"\bESS\b"), table.column(r"complet")
    if cut is None:
        return None
    worst = max(table.rows, key=lambda row: row.number(cut) or 0.0)
    percent = worst.number(cut)
    if percent is None or not MOST_CUT_FRAC <= percent / PERCENT <= 1:
        return None
    size = None if ess is None else worst.number(ess)
    is_hidden = size is not None and FINE_ESS_FRAC <= size <= 1
    completed = f", {worst.cells[done].replace('/', ' of ')} completed" if done is not None else ""
    beside = f", while an effective sample size of {size:.3f} looks fine" if is_hidden else ""
    return Finding(
        code="health/low_completion" if is_hidden else "health/truncation",
        kind=FindingKind.HEALTH,
        severity=Severity.FAULT,
        title=f"{worst.cells[0]}: {percent:g} % of the answers are cut{completed}{beside}; fix this first",
        evidence=(Evidence(text=worst.text, origin=worst.origin),),
    )


def _sampling(table: Table) -> Finding | None:
    """Rows of truncated sampling with an importance ratio below 1."""
    ratio, mass = table.column(r"\bratio\b"), table.column(r"mass")
    rows = [row for row in table.rows if _CUT_SAMPLING.search(row.cells[0])]
    low = [(row, value) for row in rows if ratio and (value := row.number(ratio)) is not None and 0 < value < 1]
    if not low:
        return None
    row, value = min(low, key=lambda entry: entry[1])
    kept = None if mass is None else row.number(mass)
    of = f" ({kept:g} is kept)" if kept is not None else ""
    return Finding(
        code="mismatch/sampling_params",
        kind=FindingKind.MISMATCH,
        severity=Severity.WARNING,
        title=(
            f"A ratio of {value:g} under {row.cells[0]} is the probability mass that sampling keeps{of}, "
            f"not a mismatch: compare log-probs over the same support"
        ),
        evidence=tuple(Evidence(text=r.text, origin=r.origin) for r in table.rows),
    )


def _moved(table: Table) -> Finding | None:
    """Two rows with one label, one of them a variant: which columns of seconds moved."""
    total = table.column(r"(?:total|step).*(?:\(s\)|seconds)")
    parts = [i for i, name in enumerate(table.heading) if re.search(r"\(s\)|seconds", name) and i != total]
    label = _label_column(table)
    if total is None or label is None or not parts:
        return None
    facts = [
        Evidence(text=text, origin=b.origin)
        for a, b in zip(table.rows, table.rows[1:], strict=False)
        if (text := _difference(table, a, b, label, total, parts))
    ]
    if not facts:
        return None
    return Finding(
        code="moved_phases",
        kind=FindingKind.BOTTLENECK,
        severity=Severity.INFO,
        title=f"What moved between the rows with one label, largest first: {facts[-1].text}",
        evidence=tuple(facts),
    )


def _label_column(table: Table) -> int | None:
    columns = range(len(table.heading))
    return next((i for i in columns if any(i < len(r.cells) and _VARIANT.match(r.cells[i]) for r in table.rows)), None)


def _difference(table: Table, a: TableRow, b: TableRow, label: int, total: int, parts: Sequence[int]) -> str:
    variant = _VARIANT.match(b.cells[label])
    before, after = a.number(total), b.number(total)
    if variant is None or a.cells[label] != variant["label"] or before is None or after is None or before == after:
        return ""
    deltas = [
        (table.heading[i], x, y) for i in parts if (x := a.number(i)) is not None and (y := b.number(i)) is not None
    ]
    moved = sorted((d for d in deltas if d[1] != d[2]), key=lambda d: -abs(d[2] - d[1]))[:3]
    listed = ", ".join(f"{_bare(name)} {x:g} to {y:g} ({y - x:+g})" for name, x, y in moved)
    return f"{b.cells[label]}: {before:g} to {after:g} s ({after - before:+g}): {listed}"


def _bare(heading: str) -> str:
    return re.sub(r"\s*\(s\)|\s*seconds", "", heading)
