"""What a page of an answer draws: roles side by side, what each lever could bring, lengths, metrics over the steps.

Each picture is data (a block) and has its numbers in words beside it; a picture without numbers is not made.
"""

import math
from collections.abc import Sequence

from steptune.core.estimate import Estimate
from steptune.core.finding import Diagnosis, PhaseRow
from steptune.core.phase import is_child
from steptune.core.profile import Profile, SampledLengths, SummaryLengths
from steptune.report.blocks import Bar, Bars, Lanes, Reference, Tone
from steptune.report.cells import number, words
from steptune.report.lanes import role_lane
from steptune.report.numbers import count_text, derived, measured
from steptune.report.phase_rows import row_name, shown_rows

NUM_BINS = 10
"""Bars of a histogram of lengths: what fits a screen."""

LEAST_SHARE = 0.005
"""Part of the step from which a saving is drawn: less is thinner than the line that marks today's step."""


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
    if profile is None or not math.isfinite(profile.step_time.value):
        return None
    now = profile.step_time
    free = {row_name(row): row.if_free for row in shown_rows(diagnosis) if row.if_free and _is_worth_a_bar(row)}
    bars = [
        Bar(label=f"no {name}", start=left.value, end=now.value, cell=number(without_note(left)))
        for name, left in sorted(free.items(), key=lambda item: item[1].value)
    ]
    if not bars:
        return None
    today = Bar(label="a step today", start=0.0, end=now.value, cell=number(now), tone=Tone.MUTED)
    return Bars(
        caption="Step time if a part took nothing, everything else as it is: the bar is the most that could be saved",
        unit="s",
        bars=(today, *bars),
        references=(Reference(value=now.value, label="a step today"),),
    )


def without_note(estimate: Estimate) -> Estimate:
    """Return ``estimate`` without its note, where a caption says the same once for all."""
    return estimate.model_copy(update={"note": ""})


def _is_worth_a_bar(row: PhaseRow) -> bool:
    is_known = row.if_free is not None and math.isfinite(row.if_free.value)
    return is_known and row.share is not None and row.share >= LEAST_SHARE and not is_child(row.phase)


def lengths(profile: Profile) -> Bars | None:
    """Return the lengths of prompts and completions, as a histogram where single samples are known; None if unknown."""
    if isinstance(profile.lengths, SampledLengths):
        return _histogram(profile.lengths.completion)
    return _summary(profile.lengths, profile.work.max_completion_len)


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
