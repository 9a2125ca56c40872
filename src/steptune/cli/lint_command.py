"""`steptune lint`: what is wrong with a configuration, before anything is launched."""

import argparse

from steptune.cli.answer import lint_only
from steptune.cli.diagnose_command import say_unread, write
from steptune.cli.input_files import input_files
from steptune.cli.own_files import without_own
from steptune.cli.page_place import check_page
from steptune.cli.show import EXIT_FINE, EXIT_FOUND, EXIT_UNREAD, presentable
from steptune.core.finding import Severity


def run(args: argparse.Namespace) -> int:
    """Print the findings of the configuration rules; exit 3 when one is a fault."""
    with input_files(args.files) as paths:
        check_page(args.html, args.files, paths)
        diagnosis = presentable(lint_only(without_own(paths, args.command)))
    write(diagnosis, args)
    paste = diagnosis.paste
    if paste.framework is None and not (paste.settings or paste.excerpts or paste.series):
        say_unread("a configuration or a launch script", paste.num_lines)
        return EXIT_UNREAD
    return EXIT_FOUND if any(f.severity is Severity.FAULT for f in diagnosis.findings) else EXIT_FINE
