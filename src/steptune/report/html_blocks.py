"""Each kind of block in HTML."""

from collections.abc import Sequence

from steptune.report.blocks import Bars, Block, Cell, Column, Figures, Lanes, Ranges, Table, Text
from steptune.report.html_cells import cell_markup
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.svg.bars import draw_bars
from steptune.report.svg.lanes import draw_lanes
from steptune.report.svg.ranges import draw_ranges

UNFOLDED_WORD_COLUMNS, UNFOLDED_NUMBER_COLUMNS = 4, 2
"""Columns that fit side by side on a phone of 380 px."""


def block_markup(block: Block) -> Markup:
    """Return ``block`` as HTML."""
    if isinstance(block, Text):
        return _text(block)
    if isinstance(block, Figures):
        return _figures(block)
    if isinstance(block, Table):
        return _table(block)
    return _chart(block)


def _chart(block: Lanes | Bars | Ranges) -> Markup:
    if isinstance(block, Lanes):
        return draw_lanes(block)
    return draw_bars(block) if isinstance(block, Bars) else draw_ranges(block)


def _text(block: Text) -> Markup:
    heading = element("h3", block.heading) if block.heading else joined()
    if len(block.lines) == 1:
        return joined(heading, element("p", prose(block.lines[0])))
    items = [element("li", prose(line)) for line in block.lines]
    return joined(heading, element("ul", *items) if items else joined())


def _figures(block: Figures) -> Markup:
    tiles = [
        element("div", element("dt", figure.label), element("dd", cell_markup(figure.cell)), class_="figure")
        for figure in block.figures
    ]
    return element("dl", *tiles, class_="figures")


def _table(block: Table) -> Markup:
    """Return a table that folds into one block per row on a phone; roles keep its meaning when it does."""
    heads = [_head(column) for column in block.columns]
    head = element("thead", element("tr", *heads, role="row"), role="rowgroup")
    body = element("tbody", *(_row(block.columns, row) for row in block.rows), role="rowgroup")
    table = element("table", element("caption", prose(block.caption)), head, body, role="table")
    return element("div", table, class_="table fold" if _needs_fold(block) else "table")


def _needs_fold(block: Table) -> bool:
    """Return whether the table would not fit a phone: small print beside numbers takes room, short words do not."""
    has_numbers = any(column.is_number for column in block.columns)
    return len(block.columns) > (UNFOLDED_NUMBER_COLUMNS if has_numbers else UNFOLDED_WORD_COLUMNS)


def _head(column: Column) -> Markup:
    note = element("span", column.note, class_="small") if column.note else joined()
    css = "number" if column.is_number else None
    return element("th", column.head, note, scope="col", role="columnheader", class_=css)


def _row(columns: Sequence[Column], row: Sequence[Cell]) -> Markup:
    cells: list[Markup] = []
    for column, cell in zip(columns, row, strict=True):
        css = "number" if column.is_number else None
        content = element("div", cell_markup(cell))
        cells.append(element("td", content, role="cell", data_label=column.head, class_=css))
    return element("tr", *cells, role="row")
