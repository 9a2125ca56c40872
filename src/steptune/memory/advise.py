"""Out-of-memory advice: every memory text of a paste becomes a finding with its phase, figures and remedies.

Messages that look fatal and are not (`memory/non_fatal`), memory that grows before anything fails
(`memory/after_sleep_growth`) and a share that the framework did not keep (`memory/override`) are findings of their own.
"""

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Paste
from steptune.memory.classify import Failure, Told, failures, read_told
from steptune.memory.figures import Figures
from steptune.memory.foreseen import foreseen_finding
from steptune.memory.growth import growth_finding
from steptune.memory.history import before
from steptune.memory.logits import logits_text, positions_text, vocab_size
from steptune.memory.override import override_finding
from steptune.memory.pool import pool_finding
from steptune.memory.remedies import remedies, uses_sleep
from steptune.memory.reservation import reservation_finding
from steptune.memory.settings import View, view_of
from steptune.memory.table import not_monotone_finding

LOGIT_PHASES = ("logits", "logprob", "backward", "forward", "update")
"""Phases in which logits of a whole micro batch stand in memory."""

PHASE_WORDS = {
    "engine_start": "while the inference engine started",
    "rollout": "while answers were generated",
    "logprob": "while log-probs were computed",
    "logits": "in the loss, on the logits",
    "forward": "in a forward pass of the trained model",
    "update": "in a training update (the text does not say whether in its forward or backward pass or the optimizer)",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer step",
    "refit": "while weights were sent to the engine",
    "wake_up": "when the engine woke up",
    "resume": "while a checkpoint was loaded",
    "load": "while the model was built",
    "collective": "in a collective operation",
    "host": "on the host, not on the device",
    "unknown": "in a phase that the text does not name",
}
"""Phase of a failure as people say it."""


ENGINE_KEYS = ("vllm.num_engines", "generator.inference_engine.num_engines", "rollout-num-engines")
"""How many engines there are, by framework."""

CODE_OF = {"update": "unknown"}
"""Phases whose finding has another code: an update that is named as a whole leaves the phase inside it open."""

UNPROVEN = {
    "maybe_host": "A process was killed; too little host memory is the most frequent cause, the text does not prove it",
    "maybe_device": "A CUDA library could not start; too little device memory is the most frequent cause, the text "
    "does not prove it",
}
"""Signal 9 is what the kernel sends when memory runs out, and what a person or a scheduler sends too. A handle that
cannot be made may also be a driver that does not fit, or an earlier error of the device."""


def memory_findings(paste: Paste) -> tuple[Finding, ...]:
    """Return what the memory texts, series and settings of ``paste`` say; empty where there is none."""
    view = view_of(paste)
    told = read_told(paste.excerpts)
    growth = growth_finding(paste)
    found: list[Finding | None] = [
        _failure_finding(failure, view, before(paste, failure.phase, growth)) for failure in failures(told)
    ]
    found += [
        pool_finding(paste, view, told),
        growth,
        override_finding(paste, view),
        not_monotone_finding(paste),
        reservation_finding(paste),
        foreseen_finding(paste),
        _non_fatal(told),
    ]
    known = [finding for finding in found if finding is not None]
    return tuple(known or _lost(told))


def _failure_finding(failure: Failure, view: View, history: tuple[Evidence, ...]) -> Finding:
    best = failure.best
    figures = best.figures
    needs = "" if figures.needed_gib is None else f": {_gib(figures.needed_gib)} needed"
    of = "" if figures.capacity_gib is None else f" of {_gib(figures.capacity_gib)}"
    free = "" if figures.free_gib is None or not needs else f", {_gib(figures.free_gib)} free{of}"
    is_sure = best.meaning == "failure"
    title = UNPROVEN.get(best.meaning, f"Out of memory {PHASE_WORDS[failure.phase]}{needs}{free}")
    used = _node(figures)
    title = f"{title}: {used}" if used else title
    return Finding(
        code=f"oom/{CODE_OF.get(failure.phase, failure.phase)}",
        kind=FindingKind.MEMORY,
        severity=Severity.FAULT if is_sure else Severity.WARNING,
        title=title,
        evidence=(*_stated(failure), *_asleep(failure, view), *_logits(failure, view), *history),
        remedies=remedies(failure, view),
    )


def _stated(failure: Failure) -> tuple[Evidence, ...]:
    best = failure.best
    figures, origin = best.figures, best.excerpt.origin
    texts = [
        _part("needed", figures.needed_gib),
        _part("free", figures.free_gib),
        _part("capacity", figures.capacity_gib),
        _part("held by tensors", figures.allocated_gib),
        _part("reserved but unallocated (fragmentation)", figures.unallocated_gib),
        _part("held by other processes", figures.others_gib),
        _node(figures),
        _killed(figures),
        _in_pieces(figures),
        f"phase named by `{best.because}`" if best.because else None,
        f"printed {failure.count()} times (ranks, retries and the controller)" if failure.count() > 1 else None,
    ]
    message = Evidence(text=_short(best.excerpt.text), origin=origin)
    return (message, *(Evidence(text=text, origin=origin) for text in texts if text is not None))


def _logits(failure: Failure, view: View) -> tuple[Evidence, ...]:
    if failure.phase not in LOGIT_PHASES:
        return ()
    needed, vocab = failure.best.figures.needed_gib, vocab_size(view)
    texts = [
        logits_text(view),
        positions_text(needed, vocab) if failure.phase == "logits" and needed is not None and vocab else None,
    ]
    return tuple(Evidence(text=text) for text in texts if text is not None)


def _non_fatal(told: list[Told]) -> Finding | None:
    harmless = [one for one in told if one.meaning == "non_fatal"]
    if not harmless:
        return None
    return Finding(
        code="memory/non_fatal",
        kind=FindingKind.MEMORY,
        severity=Severity.INFO,
        title="`malloc return OOM` of the memory saver is not a crash: the allocator frees its cache and tries again",
        evidence=tuple(Evidence(text=_short(one.excerpt.text), origin=one.excerpt.origin) for one in harmless[:2]),
    )


def _node(figures: Figures) -> str | None:
    """Ray prints GB and means 2^30 bytes (its memory monitor)."""
    if figures.node_used_gib is None:
        return None
    of = "" if figures.node_total_gib is None else f" of {figures.node_total_gib:g}"
    return f"{figures.node_used_gib:g}{of} GiB of the node's memory in use"


def _killed(figures: Figures) -> str | None:
    """What the killed task itself held: a driver with most of the node gathers data, a small one is a bystander."""
    if figures.killed_gib is None:
        return None
    return f"the task that was killed, {figures.killed_name}, held {figures.killed_gib:g} GiB of it"


def _asleep(failure: Failure, view: View) -> tuple[Evidence, ...]:
    """What sleeping engines keep on the host: sleep level 1 moves their weights there."""
    if failure.phase != "host" or not uses_sleep(view):
        return ()
    setting = next((found for key in ENGINE_KEYS if (found := view.found(key)) is not None), None)
    engines = "every sleeping engine keeps" if setting is None else f"{setting.text} sleeping engines keep"
    text = f"{engines} a copy of its weights on the host (sleep level 1)"
    return (Evidence(text=text, origin=None if setting is None else setting.origin),)


def _in_pieces(figures: Figures) -> str | None:
    """HIP and fragmented allocators fail with more free than needed (ROCm/TheRock#1054, pytorch#175431)."""
    if figures.needed_gib is None or figures.free_gib is None or figures.free_gib < figures.needed_gib:
        return None
    return "more was free than needed: it is in pieces, or a limit of the process or the driver holds"


def _lost(told: list[Told]) -> list[Finding]:
    """Ray names three possible causes of every lost worker; the message is a finding only where nothing else is."""
    lost = [one for one in told if one.meaning == "lost"]
    if not lost:
        return []
    return [
        Finding(
            code="memory/worker_lost",
            kind=FindingKind.MEMORY,
            severity=Severity.INFO,
            title="A worker died and its message knows no cause: host memory is one of three that Ray always names",
            evidence=(Evidence(text=_short(lost[0].excerpt.text), origin=lost[0].excerpt.origin),),
            remedies=(
                Remedy(
                    text="Look for the cause on that node: `ray logs raylet.out` (memory pressure), `dmesg` (the "
                    "kernel's killer), and the worker's own log (a crash)",
                    source="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
                ),
            ),
        )
    ]


def _part(name: str, gib: float | None) -> str | None:
    return None if gib is None else f"{name} {_gib(gib)}"


def _gib(gib: float) -> str:
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.0f} MiB"


def _short(text: str, limit: int = 300) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
