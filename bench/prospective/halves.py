"""Every engine's half, made when its first job comes: one that is not installed fails its own jobs alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prospective.backend import Backend
from prospective.job import Engine


def halves(folder: Path) -> Mapping[Engine, Callable[[], Backend[Any]]]:
    """Return how to make each half; runs go under ``folder``."""
    return {"embedded": lambda: _embedded(folder), "trl": _trl, "vllm": _vllm}


def _embedded(folder: Path) -> Backend[Any]:
    from prospective.embedded_half import EmbeddedHalf

    return EmbeddedHalf(folder=folder)


def _trl() -> Backend[Any]:
    from prospective.trl_half import TrlHalf

    return TrlHalf()


def _vllm() -> Backend[Any]:
    from prospective.vllm_half import VllmHalf

    return VllmHalf()
