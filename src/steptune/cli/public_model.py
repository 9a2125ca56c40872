"""The step model on public rows for `steptune score --public`: what it may be fitted on, and its refits.

Only rows of side `fit` are evidence. Surprise: the committed constants are a fit of the same evidence; refitting
without a source happens here and now, so that nobody has to trust that it was done.
"""

from collections.abc import Sequence

from steptune.forecast.public.arm import PublicForecaster
from steptune.forecast.public.evidence import phases_of, trainer_row
from steptune.forecast.public.fit import Evidence, RatioEvidence, fit
from steptune.published.public_run import PublicRun
from steptune.published.split import Side
from steptune.score.groups import scored_groups
from steptune.score.model import stated


def evidence(runs: Sequence[PublicRun], *, without: str | None = None) -> Evidence:
    """Return ratios and phases of side `fit`, the rows of one owner left out."""
    kept = [run for run in runs if run.side is Side.FIT and run.owner != without]
    pairs = [(group.name, pair) for group in scored_groups(kept) for pair in group.pairs if pair.kind == "structural"]
    readable = [row for run in kept if (row := trainer_row(run) or run).quality in ("A", "B")]
    return Evidence(
        ratios=[RatioEvidence(group=name, base=pair.base, other=stated_but_timed(pair.other)) for name, pair in pairs],
        phases=[one for run in readable for one in phases_of(run)],
    )


def stated_but_timed(run: PublicRun) -> PublicRun:
    """Return a row as a model sees it, with the step time it is held against."""
    return stated(run).model_copy(update={"step_time_s": run.step_time_s})


def refitted_without(owner: str, runs: Sequence[PublicRun], fitted: PublicForecaster) -> PublicForecaster:
    """Return the model fitted without an owner; one whose rows were never evidence needs no new fit."""
    has_evidence = any(run.side is Side.FIT and run.owner == owner for run in runs)
    return PublicForecaster(fit(evidence(runs, without=owner)), fitted.name) if has_evidence else fitted
