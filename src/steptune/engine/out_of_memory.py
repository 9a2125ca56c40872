"""Recognises a run that is out of memory, and names the smallest remedy that leaves the mathematics alone.

Surprise: torch raises no MemoryError. On a CPU it is a RuntimeError of its allocator, on a GPU a subclass of it.
"""

from collections.abc import Mapping
from typing import Protocol

from steptune.engine.where import phase_of_stack

SIGNS = (
    *("can't allocate memory", "cannot allocate memory", "out of memory", "not enough memory", "unable to mmap"),
    *("memoryerror", "std::bad_alloc"),
)
"""Words of torch's allocators, of mmap and the operating system, and what a worker calls such an error of its own."""


class MemoryKnobs(Protocol):
    """The settings that memory can be saved with."""

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens of a micro-batch."""
        ...

    @property
    def recompute(self) -> bool:
        """Whether activations are computed again."""
        ...

    @property
    def rollout_concurrency(self) -> int | None:
        """Rows that decode at once."""
        ...


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether ``error`` says that memory could not be had."""
    text = str(error).partition("; hint: ")[0].lower()  # our hints speak of memory where a cause can only be guessed
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | OSError) and any(sign in text for sign in SIGNS)
    )


def told(error: BaseException, stack: str, knobs: MemoryKnobs) -> str:
    """Return the error's first line with its phase and remedy; ``stack`` as `traceback` prints it."""
    phase, frame = phase_of_stack(stack, innermost_first=False)
    first = (str(error) or "out of memory").splitlines()[0]
    where = f"in `{phase}` ({frame})" if frame else "in an unknown phase"
    return f"{first}; {where}; hint: {remedy(phase, knobs)}"


def remedy(phase: str, knobs: MemoryKnobs) -> str:
    """Return the smallest change that saves memory in ``phase`` without another result.

    Smaller micro-batches sum the same gradients, recomputation repeats the same forward, fewer rows at once decode the
    same tokens.
    """
    half = max(1, knobs.micro_batch_tokens // 2)
    by_phase: Mapping[str, str] = {
        "train": f"`micro_batch_tokens = {half}` (it is {knobs.micro_batch_tokens})"
        + ("" if knobs.recompute else ", then `recompute = true`"),
        "old_logprob": f"`logprob_batch_tokens = {half}`",
        "rollout": (
            f"`rollout_concurrency = {max(1, knobs.rollout_concurrency // 2)}`"
            if knobs.rollout_concurrency
            else "`rollout_concurrency` of half the rows of a step"
        )
        + ", the mathematics stays",
    }
    return by_phase.get(phase, "a smaller `micro_batch_tokens`, then `rollout_concurrency`; neither changes a result")
