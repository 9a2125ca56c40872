"""`steptune compare`: is this speed-up real? The same command answers "nothing changed but it is slower"."""

import argparse
from pathlib import Path

from steptune.cli.answer import comparison_and_unread
from steptune.cli.diagnose_command import say_unread
from steptune.cli.input_files import check_stdin, input_files, split_list
from steptune.cli.own_files import without_own
from steptune.cli.page_place import check_page
from steptune.cli.show import EXIT_FINE, EXIT_FOUND, EXIT_UNREAD, presentable, print_text, write_page
from steptune.cli.streams import print_plain
from steptune.core.comparison import SpeedVerdict


def run(args: argparse.Namespace) -> int:
    """Print the comparison; exit 3 when B is slower, 1 when nothing was recognised in one of the two."""
    from steptune.report.answer_json import answer_json
    from steptune.report.comparison_text import comparison_text
    from steptune.report.redact import redact_text

    names_a, names_b = split_list(args.a), split_list(args.b)
    check_stdin(names_a + names_b)
    with input_files(names_a) as paths_a, input_files(names_b) as paths_b:
        check_page(args.html, names_a + names_b, paths_a + paths_b)
        sides = (without_own(paths, args.command) for paths in (paths_a, paths_b))
        compared, unread = comparison_and_unread(*sides)
        found = presentable(compared)
    name_a, name_b = redact_text(args.a), redact_text(args.b)
    if args.html:
        from steptune.report.comparison_html import comparison_html

        write_page(Path(args.html), comparison_html(found, name_a, name_b))
    if args.json:
        print_plain(answer_json(found))
    else:
        print_text(comparison_text(found, name_a, name_b))
    for side, num_lines in unread.items():
        say_unread("a log or a configuration", num_lines, f"side {side}")
    if unread:
        return EXIT_UNREAD
    return EXIT_FOUND if found.verdict is SpeedVerdict.SLOWER else EXIT_FINE
