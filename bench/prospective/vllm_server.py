"""One server of vLLM under a candidate's limits, and a batch of forced lengths through it.

A batch begins with an empty prefix cache, as a step of RL does: new weights void it. The model has one of the two cores
(`NUM_THREADS`). Surprise: vLLM's worker spins for about a second after its last request, so whoever measures another
server next has to wait for that (`rest`).
"""

import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import final

from prospective.job import Job, Moves
from prospective.step_lengths import step_lengths
from prospective.vllm_messages import BatchTimes, RowsProbe
from prospective.vllm_space import BLOCK, EOS, MODELS, PAD, VOCAB, num_blocks
from steptune.engine.foreign.messages import Ask
from steptune.engine.foreign.metrics import EngineMetrics
from steptune.engine.foreign.settings import VllmSettings, find_python
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.model import build_model

SPIN_S = 1.2
"""Seconds after which an idle worker sleeps."""

KV_BYTES = 2**28
"""Room that the blocks of any job fit in."""

NUM_THREADS = 1
"""Of the model, on two cores: vLLM's scheduler spins while the worker computes and its API answers meanwhile, and vLLM
reserves a core for them itself (`VLLM_CPU_NUM_OF_RESERVED_CPU`,
https://docs.vllm.ai/en/latest/getting_started/installation/cpu/). With two, each waits for the other, which loses its
core to them: iterations of 6 and of 20 ms in one batch, an A/A repeat of 1.28 (first campaign)."""


@final
class Server:
    """`Server(job, moves)` starts it; `close` it."""

    def __init__(self, job: Job, moves: Moves) -> None:
        settings = job.settings(moves)
        self.job, self.settings = job, settings
        self._folder = tempfile.TemporaryDirectory()
        served = MODELS[job.model]
        limits = VllmSettings(
            python=find_python(),
            max_num_seqs=_whole(settings["max_num_seqs"]),
            max_model_len=served.prompt_len + job.lengths.longest,
            kv_bytes=KV_BYTES,
            num_kv_blocks=num_blocks(job, settings["kv_frac"]),
            block_size=BLOCK,
            prefix_caching=bool(settings["prefix_caching"]),
            num_threads=NUM_THREADS,
        )
        folder = Path(self._folder.name)
        self.engine = VllmEngine(
            served.spec, limits, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, temperature=1.0, folder=folder
        )
        self.engine.load(build_model(served.spec, VOCAB, seed=0).state_dict(), 0)
        self.start_s = self.engine.start_s or 0.0

    def run(self, step: int, settings: Moves) -> BatchTimes:
        """Run one batch; ``settings`` says in which order and how many at once."""
        lengths, rows = step_lengths(self.job, step), settings["client_rows"]
        asks = _asks(self.job, step, lengths, settings)
        seconds, before, after = self._timed(asks, rows if isinstance(rows, int) else len(asks))
        return BatchTimes(
            step=step,
            seconds=seconds,
            iterations=after.num_iterations - before.num_iterations,
            prompt_tokens=after.prompt_tokens - before.prompt_tokens,
            found_tokens=after.cached_prompt_tokens - before.cached_prompt_tokens,
            num_preemptions=after.num_preemptions - before.num_preemptions,
        )

    def probe(self, rows: int, prompt_len: int, tokens: int, number: int) -> RowsProbe:
        """Time equal rows; ``number`` makes their prompts new."""
        rng = random.Random(f"probe {self.job.seed} {number}")
        asks = [_ask([rng.randrange(3, VOCAB) for _ in range(prompt_len)], tokens, seed=i) for i in range(rows)]
        seconds, before, after = self._timed(asks, rows)
        return RowsProbe(
            rows=rows,
            prompt_len=prompt_len,
            tokens=tokens,
            seconds=seconds,
            iterations=after.num_iterations - before.num_iterations,
        )

    def rest(self) -> None:
        """Wait until its worker sleeps."""
        time.sleep(SPIN_S)

    def close(self) -> None:
        """Stop it."""
        self.engine.close()
        self._folder.cleanup()

    def _timed(self, asks: Sequence[Ask], at_once: int) -> tuple[float, EngineMetrics, EngineMetrics]:
        """Return the seconds of all requests, so many on their way at once, and the counters around them."""
        self.engine.wire.post("/reset_prefix_cache")
        before = self.engine.metrics()
        with ThreadPoolExecutor(at_once, "vllm") as pool:
            start_s = time.perf_counter()
            list(pool.map(self.engine.wire.complete, asks))
            seconds = time.perf_counter() - start_s
        return seconds, before, self.engine.metrics()


def _asks(job: Job, step: int, lengths: list[int], settings: Moves) -> list[Ask]:
    """Return a request per row, groups in the order that ``settings`` asks for."""
    size, prompt_len = job.group_size, MODELS[job.model].prompt_len
    rng = random.Random(f"prompts {job.seed} {step}")
    groups = [
        ([rng.randrange(3, VOCAB) for _ in range(prompt_len)], lengths[first : first + size])
        for first in range(0, len(lengths), size)
    ]
    if settings["order"] == "longest_first":
        groups.sort(key=lambda group: -max(group[1]))
    return [_ask(tokens, n, seed=i) for tokens, own in groups for i, n in enumerate(own)]


def _ask(prompt: list[int], tokens: int, *, seed: int) -> Ask:
    return Ask(
        prompts=[prompt], num_samples=1, max_tokens=tokens, is_forced=True, temperature=1.0, seed=seed, eos_ids=(EOS,)
    )


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
