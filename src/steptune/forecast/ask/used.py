"""What an answer rests on: measured totals with their lines, priors with their source, and what would narrow it."""

from collections.abc import Mapping

from steptune.core.estimate import Estimate, Source
from steptune.core.paste import Paste
from steptune.core.profile import Origin
from steptune.forecast.ask.answer import Unknown, Used
from steptune.forecast.ask.facts import Fact
from steptune.forecast.ask.layout import Layout, line_text
from steptune.forecast.ask.measured import Measured
from steptune.forecast.ask.priced import Priced
from steptune.forecast.ask.question import GIVEN
from steptune.forecast.ask.spread import Spread
from steptune.forecast.cluster.efficiency import SAME_MODE, SHARED_TO_OWN
from steptune.published.switches import switches

FITTED = ("generation", "training and log-probs", "weights", "mode switch", "everything else")
"""Totals that became a constant of the model: the free parameters."""

CANNOT_KNOW = (
    "whether it fits in memory: ask `steptune forecast CONFIG --device NAME`",
    "another tensor-parallel degree, kernel, precision or engine: prices are of the measured ones",
    "a change of one knob inside a side (micro-batch, recompute, cache size): one total a side cannot price it",
    "lengths that change with the policy, and what stale samples do to learning",
    "networks and hosts that both sides share, restarts, stragglers",
)
"""Said with every answer; docs/design/forecast.md has the whole list."""

_EFFICIENCY_SOURCE = "https://github.com/verl-project/verl/blob/main/docs/advance/fully_async.md"

_SWITCHED = ("completion_mean", "completion_max", "clipped_frac")
"""Facts that a framework's own metrics print."""


def used(
    paste: Paste, layout: Layout, measured: Measured, facts: Mapping[str, Fact], prices: Priced
) -> tuple[Used, ...]:
    """Return every parameter, measured ones first."""
    totals = measured.totals
    seconds = dict(
        zip(
            FITTED,
            (totals.rollout_s, totals.train_s, totals.sync_s, totals.switch_s, totals.carried_s),
            strict=True,
        )
    )
    fitted = [_total(name, s, measured.origins.get(name, ())) for name, s in seconds.items() if s > 0]
    devices = Used(
        name="devices",
        value=_stated(layout.num_devices, "devices"),
        origins=() if layout.origin is None else (layout.origin,),
        where=layout.where,
    )
    stated = [_fact(paste, f) for f in facts.values() if f.source is not Source.FORECAST]
    priors = [
        Used(name=f.name, value=_estimate(f), where=f.where) for f in facts.values() if f.source is Source.FORECAST
    ]
    return (*fitted, devices, *stated, *priors, *_efficiency(prices))


def unknowns(paste: Paste, layout: Layout, facts: Mapping[str, Fact], spread: Spread) -> tuple[Unknown, ...]:
    """Return what was assumed, the dearest assumption first."""
    found = [
        Unknown(what=f.name, assumed=_assumed(f), moves=_moves(spread.facts.get(f.name)), narrow=_narrow(paste, f))
        for f in facts.values()
        if f.alternatives
    ]
    if "order" in spread.facts:
        found.append(
            Unknown(
                what="order",
                assumed="whichever groups are whole are trained, asked in the order of the prompts too",
                moves=_moves(spread.facts["order"]),
                narrow="the framework's asynchronous trainer: what its queue hands out",
            )
        )
    if not layout.are_replicas_stated:
        found.append(
            Unknown(
                what="replicas",
                assumed=f"{layout.replicas}, one device each, asked with 2 and 4 devices too",
                moves=_moves(spread.facts.get("replicas")),
                narrow="`--given replicas=N`, or the launch script beside the log",
            )
        )
    if not layout.is_placement_stated:
        found.append(
            Unknown(
                what="placement",
                assumed="both sides take turns on the same devices",
                moves=None,
                narrow="`--given train_devices=N --given rollout_devices=N` if they do not",
            )
        )
    return tuple(sorted(found, key=lambda u: -(u.moves.value if u.moves else 0.0)))


def _total(name: str, seconds: float, origins: tuple[Origin, ...]) -> Used:
    where = ", ".join(map(line_text, origins))
    return Used(
        name=name,
        value=Estimate(value=seconds, unit="s", source=Source.MEASURED),
        origins=origins,
        where=where or "the step without the phases above",
    )


def _efficiency(prices: Priced) -> tuple[Used, ...]:
    rows = (
        ("training's exponent of devices", SAME_MODE),
        ("the same, leaving shared devices", SHARED_TO_OWN),
    )
    kept = rows if prices.cluster.is_colocated else rows[:1]
    return tuple(
        Used(
            name=name,
            value=Estimate(
                value=mean, low=mean - sd, high=mean + sd, unit="1", source=Source.PUBLISHED, note="one deviation"
            ),
            where=_EFFICIENCY_SOURCE,
        )
        for name, (mean, sd) in kept
    )


def _fact(paste: Paste, fact: Fact) -> Used:
    """Return a stated fact; a metric of the log with the last line that prints it."""
    series = paste.get_series(fact.name) if fact.where == "the log" else None
    if series is None or not series.points:
        return Used(name=fact.name, value=_estimate(fact), where=fact.where)
    origin = Origin(path=series.path, line=series.points[-1].line, key=series.key)
    return Used(name=fact.name, value=_estimate(fact), origins=(origin,), where=line_text(origin))


def _estimate(fact: Fact) -> Estimate:
    return Estimate(value=fact.value, unit=fact.unit, source=fact.source)


def _stated(value: float, unit: str) -> Estimate:
    return Estimate(value=value, unit=unit, source=Source.MEASURED)


def _assumed(fact: Fact) -> str:
    others = ", ".join(f"{value:.3g}" for value in fact.alternatives)
    return f"{fact.value:.3g}, asked with {others} too"


def _moves(log: float | None) -> Estimate | None:
    return None if log is None else Estimate(value=log, unit="frac", source=Source.FORECAST, note="of the step")


def _narrow(paste: Paste, fact: Fact) -> str:
    if fact.name not in GIVEN:
        return "a second log of the same job with another number of rollout devices"
    told = f"`--given {fact.name}=N`"
    rows = switches(paste.framework) if paste.framework is not None and fact.name in _SWITCHED else ()
    return f"{told}, or `{rows[0].line}` in the run" if rows else told
