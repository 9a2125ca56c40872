"""`steptune diagnose`: where the time goes and what is wrong, from whatever a user has of a job."""

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from steptune.cli.answer import answer
from steptune.cli.input_files import input_files
from steptune.cli.own_files import without_own
from steptune.cli.page_place import check_page
from steptune.cli.show import EXIT_FINE, EXIT_FOUND, EXIT_UNREAD, presentable, print_text, write_page
from steptune.cli.streams import print_plain, say
from steptune.core.errors import explain
from steptune.core.finding import Diagnosis, FindingKind, Severity
from steptune.readers.frameworks import FRAMEWORKS

ONLY = {
    "lint": (FindingKind.LINT,),
    "memory": (FindingKind.MEMORY,),
    "health": (FindingKind.HEALTH, FindingKind.MISMATCH),
}
"""Kinds of finding that each `--only` keeps."""


def run(args: argparse.Namespace) -> int:
    """Print the answer; exit 3 when a fault is among what is shown."""
    with input_files(args.files) as paths:
        check_page(args.html, args.files, paths)
        diagnosis = presentable(answer(without_own(paths, args.command)))
    is_read = "no_data" not in diagnosis.codes()
    if args.only:
        diagnosis = only(diagnosis, kept_kinds(args.only))
    write(diagnosis, args)
    is_faulty = any(finding.severity is Severity.FAULT for finding in diagnosis.findings)
    if not is_read:
        say_unread("a log, a configuration or an error text", diagnosis.paste.num_lines)
        return EXIT_UNREAD
    return EXIT_FOUND if is_faulty else EXIT_FINE


def say_unread(wanted: str, num_lines: int, where: str = "the input") -> None:
    """Say on stderr that nothing was recognised: a script must not take that for a clean bill."""
    from steptune.report.numbers import count_text

    sentence = explain(
        f"nothing in {where} was recognised",
        got=f"{count_text(num_lines, 'line')} without any" if num_lines else "an empty input",
        allowed=f"{wanted} of {', '.join(FRAMEWORKS)}",
        hint="paste what the trainer prints on its console, metrics included",
    )
    say(f"steptune: {sentence}")


def kept_kinds(names: Sequence[str]) -> tuple[FindingKind, ...]:
    """Return the kinds of finding that all ``--only`` together keep; none were given, none are left out."""
    return tuple(dict.fromkeys(kind for name in names for kind in ONLY[name]))


def only(diagnosis: Diagnosis, kinds: Collection[FindingKind]) -> Diagnosis:
    """Return the findings of some kinds, without phases, bottlenecks and neighbours."""
    kept = tuple(finding for finding in diagnosis.findings if finding.kind in kinds)
    return Diagnosis(paste=diagnosis.paste, findings=kept)


def write(diagnosis: Diagnosis, args: argparse.Namespace) -> None:
    """Write the page where one is wanted, and print JSON or text."""
    from steptune.report.answer_json import answer_json
    from steptune.report.diagnosis_text import diagnosis_text, findings_text

    kinds = kept_kinds(args.only)
    if args.html:
        from steptune.report.diagnosis_html import diagnosis_html

        write_page(Path(args.html), diagnosis_html(diagnosis, kinds))
    if args.json:
        print_plain(answer_json(diagnosis))
        return
    print_text(findings_text(diagnosis, args.command, kinds) if kinds else diagnosis_text(diagnosis))
