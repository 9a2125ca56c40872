"""Makers of table cells: the few ways in which a value, a judgement or a gap in the data is shown."""

import math

from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate
from steptune.core.knob import KnobValue
from steptune.core.verdict import Judgement
from steptune.report.blocks import Cell, Column, Number, Tone, Words
from steptune.report.numbers import knob_text

JUDGEMENT_TONES = {Judgement.PASS: Tone.GOOD, Judgement.FAIL: Tone.BAD, Judgement.INCONCLUSIVE: Tone.UNSURE}
"""Tone of each judgement."""

OUTCOME_TONES = {
    Outcome.ADOPT: Tone.GOOD,
    Outcome.PROVISIONAL: Tone.UNSURE,
    Outcome.REJECT: Tone.BAD,
    Outcome.EXTEND: Tone.UNSURE,
    Outcome.NO_CHANGE: Tone.MUTED,
}
"""Tone of each outcome."""


def words(text: str, detail: str = "") -> Cell:
    """Return plain words."""
    return Words(text=text, detail=detail)


def number(estimate: Estimate | None, *, missing: str = "not measured") -> Cell:
    """Return a number, or ``missing`` in muted words; NaN is shown and toned as unsure."""
    if estimate is None:
        return Words(text=missing, tone=Tone.MUTED)
    return Number(estimate=estimate, tone=Tone.UNSURE if math.isnan(estimate.value) else Tone.PLAIN)


def knob(value: KnobValue, tone: Tone = Tone.PLAIN) -> Cell:
    """Return a knob's setting."""
    return Words(text=knob_text(value), tone=tone)


def judgement(value: Judgement) -> Cell:
    """Return PASS, FAIL or INCONCLUSIVE."""
    return Words(text=str(value), tone=JUDGEMENT_TONES[value])


def outcome(value: Outcome) -> Cell:
    """Return what became of a candidate."""
    return Words(text=str(value), tone=OUTCOME_TONES[value])


def muted(text: str) -> Cell:
    """Return words that say that something is absent."""
    return Words(text=text, tone=Tone.MUTED)


def column(head: str, note: str = "") -> Column:
    """Return a column of words."""
    return Column(head=head, note=note)


def numbers(head: str, note: str = "") -> Column:
    """Return a column of numbers."""
    return Column(head=head, note=note, is_number=True)
