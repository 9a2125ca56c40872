"""Rows of tables that a terminal or a Markdown post shows: `│ key │ 1.0 │ key │ 2.0 │`, `| phase | 5h26m | 60.4% |`."""

import re

_BORDER = re.compile(r"[│┃║|]")
_RULE = re.compile(r"[\s│┃║|+:═─━╒╞╘╪╤╧╡╛╕├┼┤┌┬┐└┴┘-]*")


def table_cells(text: str) -> list[str]:
    """Return the cells of a row, without backticks and stars; empty for a rule or a line that is no row."""
    stripped = text.strip()
    if len(stripped) < 3 or not _BORDER.match(stripped) or _RULE.fullmatch(stripped):
        return []
    return [cell.strip().strip("`*").strip() for cell in _BORDER.split(stripped)[1:-1]]
