"""Remedies for one failure, in the user's own configuration language, with computed values."""

from steptune.core.finding import Remedy
from steptune.memory.classify import Failure
from steptune.memory.figures import Figures
from steptune.memory.moves import new_value
from steptune.memory.settings import View
from steptune.memory.tables import KeyMove, RemedyRule, compiled, remedy_rules

ANY_FRAMEWORK = "any"
"""Framework of a line that belongs to no framework: a container flag."""

MAX_REMEDIES = 4
"""Remedies shown for one failure: the smallest that help; more is a manual."""

MAX_NAMES = 4
"""Names of one key shown where the framework is unknown."""

OTHERS_FRAC = 0.2
"""Part of the card in other processes from which they come first; a bare CUDA context is 0.3 to 0.6 GiB."""

FRAGMENTED_FRAC = 0.1
"""Reserved but unallocated part of the card, or of what PyTorch holds where the card is not stated, from which
fragmentation is worth treating (N08: 7 of 80 GiB)."""


def remedies(failure: Failure, view: View) -> tuple[Remedy, ...]:
    """Return what to do about ``failure``, smallest change first, then what not to do."""
    chosen: list[Remedy] = []
    no_key_here: list[Remedy] = []
    warnings: list[Remedy] = []
    for rule in remedy_rules():
        lines = _lines(rule, view, failure) if _applies(rule, failure) else None
        if lines is None or (lines and set(lines) <= {line for remedy in chosen for line in remedy.lines}):
            continue
        remedy = Remedy(
            text=f"{_condition(rule, failure)}{rule.text}{_in_words(rule, view)}",
            lines=lines,
            keeps_algorithm=rule.keeps_algorithm,
            source=rule.source,
        )
        is_foreign = bool(rule.keys) and not lines and bool(view.rule.name) and not _mine(rule, view)
        (warnings if rule.is_warning else no_key_here if is_foreign else chosen).append(remedy)
    return (*(chosen or no_key_here)[:MAX_REMEDIES], *_fragmentation(failure, view), *warnings)


def _applies(rule: RemedyRule, failure: Failure) -> bool:
    if failure.phase not in rule.phases or not compiled(rule.only_text).search(failure.words()):
        return False
    figures = failure.best.figures
    share = (figures.others_gib or 0.0) / figures.capacity_gib if figures.capacity_gib else 0.0
    return share >= OTHERS_FRAC or not rule.needs_others


def _condition(rule: RemedyRule, failure: Failure) -> str:
    """What must hold for the advice where the phase is open: advice with keys here is for the trainer's side."""
    return "If training ran out: " if failure.phase == "unknown" and rule.keys else ""


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


def _mine(rule: RemedyRule, view: View) -> list[KeyMove]:
    return [move for move in rule.keys if move.framework in (view.rule.name, ANY_FRAMEWORK)]


def _lines(rule: RemedyRule, view: View, failure: Failure) -> tuple[str, ...] | None:
    """Return the lines of ``rule``; None where its keys exist for the framework but none can move."""
    mine = _mine(rule, view)
    if not mine:
        return ()
    backend = view.backend(failure.words())
    usable = [move for move in mine if move.backend in ("", backend) and view.holds(move.when)]
    lines: list[str] = []
    for move in usable:
        if move.is_partner and not lines:
            continue
        value = new_value(move, view, failure.best.figures)
        if value is not None:
            lines.append(move.key if move.framework == ANY_FRAMEWORK else view.line(move.key, value))
    is_open = not view.is_stated() and any(move.move != "set" for move in usable)
    return tuple(lines) if lines or is_open else None


def _in_words(rule: RemedyRule, view: View) -> str:
    """Names of the keys where the framework is unknown, so that the reader can look for theirs."""
    names = dict.fromkeys(move.key.rsplit(".", 1)[-1] for move in rule.keys if move.framework != ANY_FRAMEWORK)
    if view.rule.name or not names:
        return ""
    return f" (look for {', '.join(f'`{name}`' for name in list(names)[:MAX_NAMES])})"


def _fragmentation(failure: Failure, view: View) -> tuple[Remedy, ...]:
    figures = failure.best.figures
    if not (figures.is_fragmented(FRAGMENTED_FRAC) or figures.would_fit_whole()):
        return ()
    if uses_sleep(view, failure.words()):
        return (
            Remedy(
                text=f"{_said(figures)}, but do not set expandable_segments here: vLLM's sleep mode refuses it "
                "(its memory pool asserts); garbage_collection_threshold and an emptied cache are safe",
                lines=("export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.6",),
                source="https://github.com/pytorch/pytorch/issues/147851",
            ),
        )
    return (
        Remedy(
            text=f"{_said(figures)}: growing segments waste less (only where no vLLM engine sleeps on this card)",
            lines=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",),
            source="https://docs.pytorch.org/docs/stable/notes/cuda.html",
        ),
    )


def _said(figures: Figures) -> str:
    return (
        "The request would have fitted into what is reserved and free, were it in one piece"
        if figures.would_fit_whole()
        else "Fragmentation is large"
    )
