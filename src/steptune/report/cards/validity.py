"""For which lengths the decision holds, what is forecast beyond them, and when to go back."""

from steptune.core.decision import Range, Tripwire
from steptune.core.estimate import Estimate, Source
from steptune.core.profile import Profile, SampledLengths
from steptune.report.blocks import Block, Cell, Table
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, number, numbers, words
from steptune.report.numbers import count_text, derived, digits, measured
from steptune.report.session_view import SessionView


def card(view: SessionView) -> Shown | NotApplicable:
    """Show lengths, range and trip-wires."""
    holds = view.decision.holds_for if view.decision else None
    tripwires = view.decision.tripwires if view.decision else ()
    blocks: list[Block] = []
    if view.baseline is not None:
        blocks.append(_lengths(view.baseline.profile))
    if holds is not None:
        blocks.append(_beyond(holds))
    if tripwires:
        blocks.append(_tripwires(tripwires))
    if not blocks:
        return NotApplicable(why="no lengths were measured and no decision was made")
    return Shown(takeaway=_takeaway(view, holds, tripwires), blocks=tuple(blocks))


def _takeaway(view: SessionView, holds: Range | None, tripwires: tuple[Tripwire, ...]) -> str:
    if view.decision is None:
        return "no decision, so no range; these are the lengths of the baseline"
    if holds is None:
        return "the decision states no range of validity"
    wires = count_text(len(tripwires), "trip-wire")
    return (
        f"tested up to {holds.completion_len_max} tokens, mean {digits(holds.completion_len_mean)} (measured); {wires}"
    )


def _lengths(profile: Profile) -> Table:
    lengths = profile.lengths
    if isinstance(lengths, SampledLengths):
        rows = _sampled("prompt", lengths.prompt) + _sampled("completion", lengths.completion)
    else:
        named = (
            ("prompt, mean", lengths.prompt_mean, "tokens"),
            ("completion, mean", lengths.completion_mean, "tokens"),
            ("completion, longest", lengths.completion_max, "tokens"),
            ("cut off at the limit", lengths.clipped_frac, "frac"),
        )
        rows = [_row(name, None if value is None else measured(value, unit)) for name, value, unit in named]
    heads = (column("length"), numbers("baseline"))
    return Table(caption="Lengths the session measured", columns=heads, rows=tuple(rows))


def _sampled(name: str, tokens: tuple[int, ...]) -> list[tuple[Cell, ...]]:
    if not tokens:
        return [_row(f"{name}, mean", None)]
    ordered = sorted(tokens)
    picks = (("median", 0.5), ("90th percentile", 0.9), ("longest", 1.0))
    rows = [_row(f"{name}, mean", derived(sum(ordered) / len(ordered), "tokens", n=len(ordered)))]
    for label, at in picks:
        value = float(ordered[min(len(ordered) - 1, int(at * len(ordered)))])
        rows.append(_row(f"{name}, {label}", measured(value, "tokens", n=len(ordered))))
    return rows


def _row(name: str, estimate: Estimate | None) -> tuple[Cell, ...]:
    return (words(name), number(estimate, missing="not stated"))


def _beyond(holds: Range) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (words(at), number(Estimate(value=ratio, unit="x", source=Source.FORECAST, note="no interval given")))
        for at, ratio in holds.forecast_ratio_at.items()
    ]
    heads = (column("completion length"), numbers("step time over baseline", "below 1 is faster"))
    return Table(caption="Forecast beyond the tested lengths", columns=heads, rows=tuple(rows))


def _tripwires(tripwires: tuple[Tripwire, ...]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (words(wire.metric), words(f"{'above' if wire.above else 'below'} {digits(wire.bound)}"), words(wire.action))
        for wire in tripwires
    ]
    heads = (column("metric"), column("trips"), column("then"))
    return Table(caption="Trip-wires for `steptune watch`", columns=heads, rows=tuple(rows))
