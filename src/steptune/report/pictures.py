"""What a page of an answer draws: roles side by side, what each lever could bring, lengths, metrics over the steps.

Each picture is data (a block) and has its numbers in words beside it; a picture without numbers is not made.
"""

import math
from collections.abc import Sequence

from steptune.core.finding import Diagnosis, PhaseRow
from steptune.core.profile import Profile, SampledLengths, SummaryLengths
from steptune.report.blocks import Bar, Bars, Lanes, Reference, Tone
from steptune.report.cells import number, words
from steptune.report.lanes import role_lane
from steptune.report.numbers import count_text, derived, measured

NUM_BINS = 10
"""Bars of a histogram of lengths: what fits a screen."""


def timeline(profile: Profile, group: str = "") -> Lanes:
    """Return one lane per role on one time scale."""
    name = group or profile.schedule
    return Lanes(
        caption="One step per role: solid is busy, hatched is waiting that nothing hides, dotted is unattributed",
        lanes=tuple(role_lane(name, role) for role in profile.roles),
    )


def ceilings(diagnosis: Diagnosis) -> Bars | None:
    """Return what a step would take if each part took nothing, the largest saving first; None without any."""
    profile = diagnosis.paste.profile
    rows = [row for row in diagnosis.phases if row.if_free is not None and math.isfinite(row.if_free.value)]
    if profile is None or not rows:
        return None
    now = profile.step_time
    ordered = sorted(rows, key=_if_free_s)
    bars = [
        Bar(label=f"no {row.phase}", start=_if_free_s(row), end=now.value, cell=number(row.if_free)) for row in ordered
    ]
    today = Bar(label="a step today", start=0.0, end=now.value, cell=number(now), tone=Tone.MUTED)
    return Bars(
        caption="Step time if a part took nothing; the bar is the most that any change to that part could save",
        unit="s",
        bars=(today, *bars),
        references=(Reference(value=now.value, label="a step today"),) if math.isfinite(now.value) else (),
    )


def lengths(profile: Profile) -> Bars | None:
    """Return the lengths of prompts and completions, as a histogram where single samples are known; None if unknown."""
    if isinstance(profile.lengths, SampledLengths):
        return _histogram(profile.lengths.completion)
    return _summary(profile.lengths, profile.work.max_completion_len)


def _if_free_s(row: PhaseRow) -> float:
    return row.if_free.value if row.if_free is not None else math.inf


def _summary(held: SummaryLengths, limit: int | None) -> Bars | None:
    named = (
        ("prompt, mean", held.prompt_mean),
        ("completion, mean", held.completion_mean),
        ("completion, longest", held.completion_max),
    )
    bars = [
        Bar(label=name, start=0.0, end=value, cell=number(measured(value, "tokens"))) for name, value in named if value
    ]
    if not bars:
        return None
    cut = f"; {100 * held.clipped_frac:.3g} % of the completions hit the limit" if held.clipped_frac is not None else ""
    references = (Reference(value=float(limit), label="limit"),) if limit is not None else ()
    return Bars(caption=f"Lengths in tokens{cut}", unit="tokens", bars=tuple(bars), references=references)


def _histogram(completion: Sequence[int]) -> Bars | None:
    if not completion:
        return None
    width = max(1, math.ceil((max(completion) + 1) / NUM_BINS))
    counts = [0] * math.ceil((max(completion) + 1) / width)
    for length in completion:
        counts[length // width] += 1
    bars = [
        Bar(
            label=f"{index * width} to {(index + 1) * width - 1} tokens",
            start=0.0,
            end=float(count),
            cell=words(f"{count_text(count, 'completion')}"),
        )
        for index, count in enumerate(counts)
    ]
    mean = derived(sum(completion) / len(completion), "tokens", n=len(completion))
    return Bars(caption=f"Completions by length, mean {mean.value:.0f} tokens", unit="1", bars=tuple(bars))
