"""Remedies for one failure, in the user's own configuration language, with computed values."""

from steptune.core.finding import Remedy
from steptune.core.knob import KnobValue
from steptune.memory.classify import Failure
from steptune.memory.moves import new_value
from steptune.memory.settings import View
from steptune.memory.tables import KeyMove, RemedyRule, compiled, remedy_rules

ANY_FRAMEWORK = "any"
"""Framework of a line that belongs to no framework: a container flag."""

MAX_REMEDIES = 4
"""Remedies shown for one failure: the smallest that help; more is a manual."""

FRAGMENTED_FRAC = 0.1
"""Reserved but unallocated part of the card from which fragmentation is worth treating (N08: 7 of 80 GiB)."""


def remedies(failure: Failure, view: View) -> tuple[Remedy, ...]:
    """Return what to do about ``failure``, smallest change first, then what not to do."""
    words = failure.words()
    chosen: list[Remedy] = []
    warnings: list[Remedy] = []
    for rule in remedy_rules():
        if failure.phase not in rule.phases or not (rule.only_text == "" or compiled(rule.only_text).search(words)):
            continue
        lines = _lines(rule, view, failure)
        if lines is None:
            continue
        remedy = Remedy(text=rule.text, lines=lines, keeps_algorithm=rule.keeps_algorithm, source=rule.source)
        (warnings if rule.is_warning else chosen).append(remedy)
    return (*chosen[:MAX_REMEDIES], *_fragmentation(failure, view), *warnings)


def uses_sleep(view: View, words: str = "") -> bool:
    """Return whether the engine sleeps, so that its pool allocator refuses expandable segments."""
    framework, value = view.rule.name, view.value
    asked = any(
        value(key) is True or value(key) == 1
        for key in ("vllm_enable_sleep_mode", "vllm.enable_sleep", "vllm_enable_sleep", "env.UNSLOTH_VLLM_STANDBY")
    )
    engine = value("actor_rollout_ref.rollout.name")
    verl_sleeps = (
        framework == "verl"
        and engine in (None, "vllm")
        and value("actor_rollout_ref.rollout.free_cache_engine", default=True) is True
    )
    nemo_sleeps = framework == "nemo_rl" and value("policy.generation.colocated.enabled", default=True) is True
    return asked or verl_sleeps or nemo_sleeps or "cumem" in words


def _lines(rule: RemedyRule, view: View, failure: Failure) -> tuple[str, ...] | None:
    """Return the lines of ``rule``; None where its keys exist for the framework but none can move."""
    mine = [move for move in rule.keys if move.framework in (view.rule.name, ANY_FRAMEWORK)]
    if not mine:
        return ()
    lines: list[str] = []
    for move in mine:
        if move.is_partner and not lines:
            continue
        value = _value(move, view, failure)
        if value is not None:
            lines.append(move.key if move.framework == ANY_FRAMEWORK else view.line(move.key, value))
    return tuple(lines) or None


def _value(move: KeyMove, view: View, failure: Failure) -> KnobValue:
    if not view.holds(move.when):
        return None
    return new_value(move, view, failure.best.figures)


def _fragmentation(failure: Failure, view: View) -> tuple[Remedy, ...]:
    figures = failure.best.figures
    stated, capacity = figures.unallocated_gib, figures.capacity_gib
    if stated is None or not capacity or stated / capacity < FRAGMENTED_FRAC:
        return ()
    if uses_sleep(view, failure.words()):
        return (
            Remedy(
                text="Fragmentation is large, but do not set expandable_segments here: vLLM's sleep mode refuses it "
                "(its memory pool asserts); garbage_collection_threshold and an emptied cache are safe",
                lines=("export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.6",),
                source="https://github.com/pytorch/pytorch/issues/147851",
            ),
        )
    return (
        Remedy(
            text="Fragmentation is large: growing segments waste less (only where no vLLM engine sleeps on this card)",
            lines=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",),
            source="https://docs.pytorch.org/docs/stable/notes/cuda.html",
        ),
    )
