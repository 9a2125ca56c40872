"""One server of vLLM under a candidate's limits, and a batch of forced lengths through it.

Surprise: vLLM's worker spins for about a second after its last request, so whoever measures another server next has to
wait for that (`rest`).
"""

import itertools
import random
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import final

from prospective.job import Job, Moves
from prospective.step_lengths import num_rows, step_lengths
from prospective.vllm_messages import BatchTimes, Reading
from prospective.vllm_space import BLOCK, EOS, MODELS, PAD, VOCAB, num_blocks
from steptune.engine.foreign.messages import Ask
from steptune.engine.foreign.metrics import EngineMetrics
from steptune.engine.foreign.settings import VllmSettings, find_python
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.model import build_model

POLL_S = 0.04
"""Seconds between two looks at a profiled batch."""

SPIN_S = 1.2
"""Seconds after which an idle worker sleeps."""

KV_BYTES = 2**28
"""Room that the blocks of any job fit in."""


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
        )
        folder = Path(self._folder.name)
        self.engine = VllmEngine(
            served.spec, limits, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, temperature=1.0, folder=folder
        )
        self.engine.load(build_model(served.spec, VOCAB, seed=0).state_dict(), 0)
        self.start_s = self.engine.start_s or 0.0

    def run(self, step: int, settings: Moves, *, watched: bool = False) -> BatchTimes:
        """Run one batch; ``settings`` says in which order and how many at once."""
        lengths = step_lengths(self.job, step)
        return self._run(step, _asks(self.job, step, lengths, settings), settings["client_rows"], watched=watched)

    def prefill(self, step: int, num_asks: int) -> tuple[int, float]:
        """Return prompt tokens and seconds of so many different prompts whose rows make one token."""
        lengths = [1] * num_rows(self.job)
        asks = _asks(self.job, step, lengths, {**self.settings, "order": "arrival"})[:: self.job.group_size][:num_asks]
        return len(asks) * MODELS[self.job.model].prompt_len, self._run(step, asks, None, watched=False).seconds

    def rest(self) -> None:
        """Wait until its worker sleeps."""
        time.sleep(SPIN_S)

    def close(self) -> None:
        """Stop it."""
        self.engine.close()
        self._folder.cleanup()

    def _run(self, step: int, asks: list[Ask], client_rows: object, *, watched: bool) -> BatchTimes:
        wire, before, is_over = self.engine.wire, self.engine.metrics(), threading.Event()
        looks: list[tuple[float, EngineMetrics]] = []

        def watch() -> None:
            while not is_over.wait(POLL_S):
                looks.append((time.perf_counter(), self.engine.metrics()))

        watcher = threading.Thread(target=watch)
        at_once = client_rows if isinstance(client_rows, int) else len(asks)
        with ThreadPoolExecutor(at_once, "vllm") as pool:
            start_s = time.perf_counter()
            if watched:
                watcher.start()
            try:
                list(pool.map(wire.complete, asks))
                end_s = time.perf_counter()
            finally:
                is_over.set()
                if watched:
                    watcher.join()
        after = self.engine.metrics()
        return BatchTimes(
            step=step,
            seconds=end_s - start_s,
            iterations=after.num_iterations - before.num_iterations,
            num_preemptions=after.num_preemptions - before.num_preemptions,
            is_watched=watched,
            readings=tuple(_reading(a, b) for a, b in itertools.pairwise(looks) if b[0] <= end_s),
        )


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
    return [
        Ask(prompts=[tokens], num_samples=1, max_tokens=n, is_forced=True, temperature=1.0, seed=i, eos_ids=(EOS,))
        for tokens, own in groups
        for i, n in enumerate(own)
    ]


def _reading(a: tuple[float, EngineMetrics], b: tuple[float, EngineMetrics]) -> Reading:
    (a_s, first), (b_s, last) = a, b
    cached = last.cached_prompt_tokens - first.cached_prompt_tokens
    return Reading(
        seconds=b_s - a_s,
        iterations=last.num_iterations - first.num_iterations,
        generated_tokens=last.generated_tokens - first.generated_tokens,
        kv_usage_frac=(first.kv_usage_frac + last.kv_usage_frac) / 2,
        prompt_tokens=last.prompt_tokens - first.prompt_tokens - cached,
        num_preemptions=last.num_preemptions - first.num_preemptions,
    )


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
