"""The LM head in tiles of positions: what it saves in memory and what its recomputation costs.

`python bench/tiled_head.py [--quick]` writes `bench/results/tiled_head.json` in about two minutes on one core
(`--quick` prints one small case and writes nothing). Forward and backward of log-probs off hidden states as wide
as SmolLM2-135M's, with its vocabulary and with Qwen3.8's. Peak memory is counted in live tensors
(`engine.live_memory`), weight gradient included; times are CPU seconds, arms taking turns, the first dropped.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from steptune.engine.head import token_logprobs
from steptune.engine.live_memory import LiveMemory
from steptune.stats.ratio import ratio_interval
from steptune.store.files import replace
from steptune.store.lock import machine_lock

HERE = Path(__file__).resolve().parent
D_MODEL = 576
CASES = ((49_152, 1024, (64, 256)), (248_320, 512, (64, 256)))
"""Vocabulary, completion tokens, tiles."""
QUICK_CASES = ((16_000, 256, (32, 128)),)
TOLERANCE = 1e-6
"""Largest relative difference of log-probs to the whole head."""


def work(head: nn.Linear, hidden_CD: Tensor, target_C: Tensor, tile_tokens: int | None) -> Tensor:
    """Return log-probs after a forward and backward."""
    head.weight.grad = hidden_CD.grad = None
    logprob_C = token_logprobs(hidden_CD, head.weight, target_C, temperature=1.0, tile_tokens=tile_tokens)
    logprob_C.sum().backward()
    return logprob_C.detach()


def rows_of(vocab: int, num_tokens: int, tiles: tuple[int, ...], num_turns: int) -> list[dict[str, object]]:
    """Return one row per tile size, the whole head first."""
    torch.manual_seed(0)
    head = nn.Linear(D_MODEL, vocab, bias=False)
    hidden_CD = torch.randn(num_tokens, D_MODEL, requires_grad=True)
    target_C = torch.randint(0, vocab, (num_tokens,))
    arms: tuple[int | None, ...] = (None, *tiles)
    seconds: dict[int | None, list[float]] = {arm: [] for arm in arms}
    whole_C = work(head, hidden_CD, target_C, None)
    for turn in range(num_turns + 1):
        for arm in arms:
            start_s = time.process_time()
            logprob_C = work(head, hidden_CD, target_C, arm)
            if turn:
                seconds[arm].append(time.process_time() - start_s)
            if not (logprob_C - whole_C).norm() <= TOLERANCE * whole_C.norm():
                sys.exit(f"tiles of {arm} change the log-probs")
    rows: list[dict[str, object]] = []
    for arm in arms:
        head.weight.grad = hidden_CD.grad = None
        with LiveMemory() as memory:
            work(head, hidden_CD, target_C, arm)
        slower = ratio_interval(seconds[arm], seconds[None])
        rows.append(
            {
                "vocab": vocab,
                "tokens": num_tokens,
                "tile_tokens": arm,
                "peak_mb": round(memory.peak_bytes / 1e6, 1),
                "all_logits_mb": round(4e-6 * num_tokens * vocab, 1),
                "ms": round(1e3 * statistics.median(seconds[arm]), 1),
                "times_as_long": f"{slower.value:.3f} ({slower.low:.3f} to {slower.high:.3f}), n={slower.n}",
            }
        )
    return rows


def main() -> int:
    """Measure, print and, unless quick, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small case, nothing written")
    is_quick = parser.parse_args().quick
    torch.set_num_threads(1)
    load, start_s = os.getloadavg()[0], time.monotonic()
    with machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None):
        table = [row for case in (QUICK_CASES if is_quick else CASES) for row in rows_of(*case, 2 if is_quick else 3)]
    print(" | ".join(table[0]))
    for row in table:
        print(" | ".join(map(str, row.values())))
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "threads": 1,
        "took_s": round(time.monotonic() - start_s),
        "rows": table,
    }
    if not is_quick:
        replace(HERE / "results" / "tiled_head.json", json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
