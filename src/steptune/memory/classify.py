"""From excerpts to failures: is it about memory, and in which phase was the program?

The surprise: the line that fails is rarely the cause, and one failure is printed by every rank and again by the
controller, often without its frames. Texts of one phase are one failure, and texts without frames join another
failure that needed as much.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.paste import Excerpt, ExcerptKind
from steptune.memory.figures import Figures, read_figures
from steptune.memory.tables import Meaning, compiled, frame_signs, text_signs

UNKNOWN = "unknown"
"""Phase of a failure whose text and frames do not say where the program was."""

UPDATE = "update"
"""Phase of a failure somewhere in a training update."""

RETOLD = "ray.exceptions.RayTaskError"
"""Start of the line with which Ray repeats a worker's exception: it names the call that the controller made."""

AFTER_REACH = 12
"""Lines after a failing text in which the controller's own error belongs to it: Ray repeats the text in a few."""

_KINDS = (ExcerptKind.OOM, ExcerptKind.ERROR, ExcerptKind.MEMORY, ExcerptKind.WARNING)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One excerpt that is about memory, read."""

    excerpt: Excerpt
    meaning: Meaning
    phase: str
    because: str
    """The words that named the phase; empty when it is unknown."""
    figures: Figures


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One failure: all texts of one phase, the most telling first."""

    phase: str
    told: tuple[Told, ...]

    @property
    def best(self) -> Told:
        """The text with the most figures and frames."""
        return self.told[0]

    def count(self) -> int:
        """Return how often it was printed, all ranks together."""
        return sum(one.excerpt.count for one in self.told)

    def words(self) -> str:
        """Return message and frames of the most telling text."""
        return words_of(self.best.excerpt)


def read_told(excerpts: Iterable[Excerpt]) -> list[Told]:
    """Return the excerpts that are about memory, in order."""
    told: list[Told] = []
    given = tuple(excerpts)
    for excerpt in given:
        if excerpt.kind not in _KINDS:
            continue
        for sign in text_signs():
            if compiled(sign.pattern).search(excerpt.text):
                phase, because = (sign.phase, "") if sign.phase else phase_of(words_of(excerpt))
                if phase == UNKNOWN and sign.meaning == "failure":
                    phase, because = _told_after(excerpt, given)
                figures = read_figures(excerpt.text)
                told.append(Told(excerpt=excerpt, meaning=sign.meaning, phase=phase, because=because, figures=figures))
                break
    return told


def _told_after(excerpt: Excerpt, given: Sequence[Excerpt]) -> tuple[str, str]:
    """Return the phase that the next errors name: the controller says which call failed after the worker's own text."""
    for other in given:
        lines = other.origin.line - excerpt.origin.line
        is_next = other.origin.path == excerpt.origin.path and 0 < lines <= AFTER_REACH
        if is_next and other.kind in (ExcerptKind.ERROR, ExcerptKind.OOM):
            phase, because = phase_of(other.text)
            if phase != UNKNOWN:
                return phase, because
    return UNKNOWN, ""


def phase_of(words: str) -> tuple[str, str]:
    """Return the phase that ``words`` (frames and message, one a line) name, and the words that named it."""
    for sign in frame_signs():
        found = compiled(sign.pattern).search(words)
        if found is not None:
            return sign.phase, " ".join(found[0].split())[:80]
    return UNKNOWN, ""


def words_of(excerpt: Excerpt) -> str:
    """Return frames and message of an excerpt, one a line."""
    return "\n".join((*excerpt.context, excerpt.text))


def failures(told: Sequence[Told]) -> list[Failure]:
    """Group the failing texts by phase, in order of their first line."""
    failing = [one for one in told if one.meaning == "failure"]
    known = {_size(one) for one in failing if not _names_no_phase(one) and one.figures.needed_gib is not None}
    groups: dict[str, list[Told]] = {}
    for one in failing:
        is_repeat = _names_no_phase(one) and (_size(one) in known or (one.figures.needed_gib is None and known))
        if not is_repeat:
            groups.setdefault(one.phase, []).append(one)
    if not groups:
        groups = _kills(told) or _unproven(told)
    return [
        Failure(phase=phase, told=tuple(sorted(ones, key=_telling, reverse=True))) for phase, ones in groups.items()
    ]


def _names_no_phase(one: Told) -> bool:
    """Whether a text leaves open where inside a call it failed: the controller's own, or one that names the update."""
    return one.phase in (UNKNOWN, UPDATE) or one.excerpt.text.startswith(RETOLD)


def _kills(told: Sequence[Told]) -> dict[str, list[Told]]:
    kills = [one for one in told if one.meaning == "maybe_host"]
    return {"host": kills} if kills else {}


def _unproven(told: Sequence[Told]) -> dict[str, list[Told]]:
    """Libraries that would not start, most often for want of device memory, by phase."""
    groups: dict[str, list[Told]] = {}
    for one in told:
        if one.meaning == "maybe_device":
            groups.setdefault(one.phase, []).append(one)
    return groups


def _size(one: Told) -> float | None:
    return one.figures.needed_gib


def _telling(one: Told) -> tuple[int, int]:
    figures = one.figures
    stated = sum(value is not None for value in (figures.needed_gib, figures.free_gib, figures.capacity_gib))
    return stated, len(one.excerpt.context)
