"""Measures part by part within a budget. A part whose checks failed, that does not fit or that breaks says why."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from gpu import arms_layer
from gpu.ceilings import ceilings
from gpu.contents import FAMILIES, PARTS
from gpu.record import Ceilings, Check, Distance, Dropped, Table
from gpu.site import Site
from gpu.turns import Budget, OverBudgetError, Share
from gpu.whole_step import whole_step

MIN_PART_S = 10.0
"""Below this much left no part is begun: making its model alone takes as long."""

LAYERS: dict[str, Callable[[Site, Share], list[Table]]] = {
    "metadata_layer": arms_layer.metadata,
    "moe_layer": arms_layer.moe,
    "reload_layer": arms_layer.reload,
}


@dataclass(kw_only=True, slots=True)
class Measured:
    """What the parts gave, in the order they were run."""

    ceilings: Ceilings | None = None
    tables: list[Table] = field(default_factory=list[Table])
    distances: list[Distance] = field(default_factory=list[Distance])
    dropped: list[Dropped] = field(default_factory=list[Dropped])


def measure(site: Site, checks: Sequence[Check], budget: Budget, say: Callable[[str], None]) -> Measured:
    """Run every part of `contents.PARTS` that may run."""
    measured, failed = Measured(), {check.name for check in checks if check.outcome == "fail"}
    for number, part in enumerate(PARTS):
        say(f"{part} ({max(0.0, budget.left_s):.0f} s left)")
        reason = _reason_to_drop(part, failed, budget, measured)
        if reason is None:
            reason = _attempt(site, part, Share.of(budget, len(PARTS) - number), measured)
        if reason is not None:
            say(f"{part} dropped: {reason}")
            measured.dropped.append(Dropped(part=part, reason=reason))
    return measured


def _reason_to_drop(part: str, failed: set[str], budget: Budget, measured: Measured) -> str | None:
    wrong = sorted(failed & set(PARTS[part]))
    if wrong:
        return f"failed its check: {', '.join(wrong)}"
    if budget.left_s < MIN_PART_S:
        return f"{budget.left_s:.0f} s of {budget.total_s:.0f} s left"
    return "no ceilings to compare with" if part in FAMILIES and measured.ceilings is None else None


def _attempt(site: Site, part: str, share: Share, measured: Measured) -> str | None:
    """Measure one part; return why not, if not."""
    try:
        _run(site, part, share, measured)
    except OverBudgetError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  the edge of a part: the others must run, and the file says why
        return f"{type(error).__name__}: {error}"[:500]
    finally:
        gc.collect()
        if site.is_cuda:
            torch.cuda.empty_cache()
    return None


def _run(site: Site, part: str, share: Share, measured: Measured) -> None:
    if part == "ceilings":
        measured.ceilings = ceilings(site)
    elif part in LAYERS:
        measured.tables += LAYERS[part](site, share)
    else:
        assert measured.ceilings is not None, "a family is dropped without ceilings"
        tables, distances = whole_step(site, part, share, measured.ceilings)
        measured.tables += tables
        measured.distances += distances
