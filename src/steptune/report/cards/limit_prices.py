"""What each of the owner's limits costs in speed. Printed, never acted on."""

import math

from steptune.core.change import LimitPrice
from steptune.report.blocks import Cell, Table
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, number, numbers, words
from steptune.report.numbers import estimate_text
from steptune.report.session_view import SessionView


def card(view: SessionView) -> Shown | NotApplicable:
    """Show the forecast gain that each limit blocks."""
    if view.proposed is None:
        return NotApplicable(why="nothing was proposed, so no limit was priced")
    prices = view.proposed.prices
    if not prices:
        return Shown(takeaway="no limit blocks a change that was forecast to be faster", blocks=())
    return Shown(takeaway=_sentence(max(prices, key=_rank)), blocks=(_table(prices),))


def _rank(price: LimitPrice) -> float:
    return -math.inf if math.isnan(price.gain.value) else price.gain.value


def _sentence(price: LimitPrice) -> str:
    moved = f"moving {price.limit} from {price.now} to {price.relaxed}"
    return f"{moved} would bring {estimate_text(price.gain)}; you set {price.now}"


def _table(prices: tuple[LimitPrice, ...]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (words(price.limit), words(price.now), words(price.relaxed), number(price.gain)) for price in prices
    ]
    heads = (
        column("limit"),
        column("you set"),
        column("relaxed to"),
        numbers("best blocked change", "speed over the best allowed one"),
    )
    return Table(caption="Price of each limit", columns=heads, rows=tuple(rows))
