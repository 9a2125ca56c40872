"""The bench of vLLM's drain: a batch whose readings failed is an error, not a short drain."""

import sys
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from steptune.core.errors import TrialError
from steptune.engine.foreign.metrics import EngineMetrics
from steptune.engine.foreign.settings import VllmSettings

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import vllm_makespan

IDLE = EngineMetrics(
    num_running=0,
    num_waiting=0,
    kv_usage_frac=0.0,
    num_preemptions=0,
    num_iterations=0,
    generated_tokens=0,
    prompt_tokens=0,
    cached_prompt_tokens=0,
    num_kv_blocks=None,
    block_size=None,
)
PATIENCE_S = 30.0


class Engine:
    """Generates until its metrics have been read three times, the third time in vain if it ``fails``."""

    settings = VllmSettings(python=Path("p"))
    server = SimpleNamespace(cpu_s=lambda: 0.0)

    def __init__(self, *, fails: bool) -> None:
        self.fails, self.num_reads, self.was_read = fails, 0, Event()

    def metrics(self) -> EngineMetrics:
        self.num_reads += 1
        if self.num_reads == 3:
            self.was_read.set()
            if self.fails:
                raise TrialError("the metrics page is gone")
        return IDLE

    def generate(self, _prompts: object, *, forced_lengths_B: torch.Tensor, **_: object) -> tuple[Any, Any]:
        assert self.was_read.wait(PATIENCE_S)
        return SimpleNamespace(lengths_B=forced_lengths_B), SimpleNamespace(decode_iterations=5, prefill_tokens=48)


def test_a_reading_that_fails_fails_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_makespan, "POLL_S", 0.0)
    with pytest.raises(TrialError, match="the metrics page is gone"):
        vllm_makespan.run_batch(Engine(fails=True), seed=1, num_rows=2, blocks=4)  # type: ignore[arg-type]


def test_readings_that_come_are_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_makespan, "POLL_S", 0.0)
    batch = vllm_makespan.run_batch(Engine(fails=False), seed=1, num_rows=2, blocks=4)  # type: ignore[arg-type]
    assert len(batch.drain) >= 2
    assert batch.num_iterations == 5
