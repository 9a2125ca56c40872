"""From files to an answer: the one place where reading, diagnosis, lint and memory advice meet.

Surprise: the stages never call each other, so the order of the findings, faults first and then by their share of
the step, is made here.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from steptune.core.comparison import Comparison
from steptune.core.finding import Diagnosis, Finding, Severity


def answer(paths: Sequence[Path]) -> Diagnosis:
    """Return everything that can be said about one job's files.

    Raises:
        ReadError: a file cannot be opened.
    """
    from steptune.diagnose.paste import diagnose_paste
    from steptune.lint.check import lint
    from steptune.memory.advise import memory_findings
    from steptune.readers.read_paste import read_paste

    paste = read_paste(paths)
    diagnosis = diagnose_paste(paste)
    found = ordered((*diagnosis.findings, *lint(paste), *memory_findings(paste)))
    return diagnosis.model_copy(update={"findings": found})


def lint_only(paths: Sequence[Path]) -> Diagnosis:
    """Return the findings of the configuration rules alone.

    Raises:
        ReadError: a file cannot be opened.
    """
    from steptune.lint.check import lint
    from steptune.readers.read_paste import read_paste

    paste = read_paste(paths)
    return Diagnosis(paste=paste, findings=ordered(lint(paste)))


def comparison(paths_a: Sequence[Path], paths_b: Sequence[Path]) -> Comparison:
    """Return what may be said of B against A.

    Raises:
        ReadError: a file cannot be opened.
    """
    return comparison_and_unread(paths_a, paths_b)[0]


def comparison_and_unread(paths_a: Sequence[Path], paths_b: Sequence[Path]) -> tuple[Comparison, dict[str, int]]:
    """Return what may be said of B against A, and of each side in which nothing was recognised its number of lines.

    Raises:
        ReadError: a file cannot be opened.
    """
    from steptune.compare.compare import compare
    from steptune.diagnose.no_claim import is_empty
    from steptune.readers.read_paste import read_paste

    pastes = {"A": read_paste(paths_a), "B": read_paste(paths_b)}
    unread = {side: paste.num_lines for side, paste in pastes.items() if is_empty(paste)}
    return compare(pastes["A"], pastes["B"]), unread


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without repetitions: faults first, inside a severity the largest share first."""
    ranks = list(Severity)
    once = dict.fromkeys(findings)

    def place(finding: Finding) -> tuple[int, float]:
        return ranks.index(finding.severity), -(finding.share.value if finding.share else 0.0)

    return tuple(sorted(once, key=place))
