"""How a memory model answers the labelled public cases: caught, refused wrongly, too close to call, unanswered.

The model sees what a post states, never its outcome, phase, peak or our note. *Too close to call* is an honest answer
and has its own limit: a model that always says so catches everything and helps nobody. An unanswered case, for want
of a setting or of a known device, is counted apart and never as right.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import final

from steptune.core.records import Record
from steptune.published.memory_cases import MemoryCase, MemoryLabel, MemoryOutcome
from steptune.score.spread import Bounds, of_share

BYTES_PER_PARAM = 16
"""bf16 weight and gradient, fp32 master copy and two Adam moments: 2 + 2 + 4 + 4 + 4."""


class Fits(StrEnum):
    """What a memory model may answer."""

    YES = "fits"
    NO = "does not fit"
    TOO_CLOSE = "too close to call"
    UNKNOWN = "cannot say"


MemoryModel = Callable[[MemoryCase], Fits]
"""A memory model under test."""


@final
class MemoryScore(Record):
    """Shares of the labelled cases.

    Example: of 30 that ran out 27 were refused or too close; of 121 that fitted 6 were refused.
    """

    name: str
    num_oom: int
    num_fit: int
    oom_caught_frac: float | None
    """Ran out, and the model said *does not fit* or *too close*."""
    oom_caught_bounds: Bounds | None
    """80 % interval of it."""
    fit_refused_frac: float | None
    """Fitted, and the model said *does not fit*."""
    fit_refused_bounds: Bounds | None
    too_close_frac: float | None
    """Of all, answered or not."""
    unknown_frac: float | None
    """Of all: the model could not say."""


def blinded(case: MemoryCase) -> MemoryCase:
    """Return the case without what became of it; `outcome` and `label` then say nothing."""
    hidden = {"id": "", "source": "", "phase": None, "peak_gib": None, "note": None}
    return case.model_copy(update={**hidden, "outcome": MemoryOutcome.FIT, "label": MemoryLabel.CLEAR})


def score_memory(name: str, model: MemoryModel, cases: Sequence[MemoryCase]) -> MemoryScore:
    """Return how the model answers ``cases``."""
    answers = Counter((case.outcome, model(blinded(case))) for case in cases)
    num_oom = sum(count for (outcome, _), count in answers.items() if outcome is MemoryOutcome.OUT_OF_MEMORY)
    num_all = sum(answers.values())
    caught = sum(answers[MemoryOutcome.OUT_OF_MEMORY, answer] for answer in (Fits.NO, Fits.TOO_CLOSE))
    refused = answers[MemoryOutcome.FIT, Fits.NO]
    return MemoryScore(
        name=name,
        num_oom=num_oom,
        num_fit=num_all - num_oom,
        oom_caught_frac=_share(caught, num_oom),
        oom_caught_bounds=of_share(caught, num_oom),
        fit_refused_frac=_share(refused, num_all - num_oom),
        fit_refused_bounds=of_share(refused, num_all - num_oom),
        too_close_frac=_share(sum(answers[outcome, Fits.TOO_CLOSE] for outcome in MemoryOutcome), num_all),
        unknown_frac=_share(sum(answers[outcome, Fits.UNKNOWN] for outcome in MemoryOutcome), num_all),
    )


def case_sets(
    cases: Sequence[MemoryCase],
    known: Sequence[MemoryCase],
    third: Sequence[MemoryCase] = (),
    fourth: Sequence[MemoryCase] = (),
) -> Mapping[str, Sequence[MemoryCase]]:
    """Return the sets that are scored, by name; what a fault explains is scored apart from all others.

    Args:
        cases: every case of the first two collections.
        known: the second collection, whose configurations are known well enough, in halves.
        third: the collection that was labelled when the model was final for the first time.
        fourth: the collection that was labelled before the model learnt from the third: the headline.
    """
    by_size = [case for case in cases if case.cause is None]
    clear = _sure(by_size)
    names = {case.id for case in known}
    return {
        "fourth": _sure(fourth),
        "third": _sure(third),
        "known, held": [case for case in clear if case.id in names and case.half == "held"],
        "known, train": [case for case in clear if case.id in names and case.half == "train"],
        "all but weak labels": clear,
        "all": by_size,
        "explained by a fault": [case for case in cases if case.cause is not None],
    }


def _sure(cases: Sequence[MemoryCase]) -> list[MemoryCase]:
    return [case for case in cases if case.cause is None and case.label is not MemoryLabel.WEAK]


def always_fits(case: MemoryCase) -> Fits:
    """Answer that it fits."""
    return Fits.YES


def sixteen_bytes(case: MemoryCase) -> Fits:
    """Answer by 16 bytes a parameter, spread over every training GPU: what a blog's rule of thumb says."""
    num_gpus = case.num_train_gpus if case.num_train_gpus is not None else case.num_gpus
    if case.params_billions is None or case.gpu_memory_gb is None or not num_gpus:
        return Fits.UNKNOWN
    per_param = 2 if case.is_lora else BYTES_PER_PARAM
    return Fits.NO if case.params_billions * per_param > case.gpu_memory_gb * num_gpus else Fits.YES


TRIVIAL_MEMORY_ARMS: tuple[tuple[str, MemoryModel], ...] = (
    ("always fits", always_fits),
    ("16 bytes a parameter", sixteen_bytes),
)
"""What every memory score stands beside."""


def _share(count: int, of: int) -> float | None:
    return count / of if of else None
