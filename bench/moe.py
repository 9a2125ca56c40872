"""Mixture-of-experts dispatch by where-loop, one stable sort, and grouped products: a layer, and a whole step.

`python bench/moe.py [--quick]` writes `bench/results/moe.json` in under four minutes on one core (`--quick` prints
a small table and writes nothing). The where-loop unbinds the stacked weights once: the fair baseline. *layers*:
forward, and forward with backward, of one layer with its router, for 8 to 256 experts; `even` lets a fresh router
choose, `skewed` draws experts from Zipf's law (the busiest then get several times the mean, some get nothing).
*steps*: a rollout and a training update of a small model on forced lengths. Host reads are counted exactly, once
per arm; times are CPU seconds of the process, arms in turns, the first turn dropped.

The surprise to expect: outputs and gradients of all arms are equal (the script stops if not), so a gain is a gain of
execution alone, and with few experts and many tokens there is little of it.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from steptune.core.job import AlgorithmSpec
from steptune.core.model import MoEModel
from steptune.engine.context import Context
from steptune.engine.events import Recorder
from steptune.engine.host_reads import HostReads
from steptune.engine.knobs import Dispatch, EngineKnobs
from steptune.engine.model import build_model, num_parameters
from steptune.engine.moe import MoELayer
from steptune.engine.probe_batch import Picked, batch_of
from steptune.engine.rollout import RolloutEngine
from steptune.engine.routes import RouteTape
from steptune.engine.trainer import PreparedBatch, Trainer
from steptune.stats.ratio import ratio_interval
from steptune.store.files import replace
from steptune.store.lock import machine_lock

HERE = Path(__file__).resolve().parent
DISPATCHES: tuple[Dispatch, ...] = get_args(Dispatch)
VOCAB, PAD, EOS = 64, 0, 1
D_MODEL, D_EXPERT = 128, 64
EXPERTS = ((8, 2), (32, 4), (64, 8), (128, 8), (256, 8))
"""Experts and how many of them a token takes: 256 and 8 as in Qwen3.6-35B-A3B."""
TOKENS = (64, 2048)
"""Positions of one call: a decode iteration of a batch, a training micro-batch."""
ZIPF_EXPONENT = 1.0
GROUPS, GROUP_SIZE = 8, 8
MODELS = {
    "8 experts, top 2": MoEModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_expert=512),
    "64 experts, top 8": MoEModel(
        num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, num_experts=64, top_k=8, d_expert=128
    ),
}
"""13 M parameters of the first (4 M on a token) and 27 M of the second (5 M on a token)."""
TOLERANCE = 1e-3
"""Largest difference between arms, as a part of the largest value: float32 sums in another order. bf16 twenty times:
the where-loop's backward pass adds up a token's gradients in bf16, choice by choice (1.04 % seen at 8 choices)."""


class LayerCall:
    """Forward, and backward if asked, of one layer under one dispatch; all arms get the same choices."""

    def __init__(
        self, layer: MoELayer, x_ND: Tensor, choices: dict[int, Tensor], how: Dispatch, backward: bool
    ) -> None:
        self.layer, self.x_ND, self.backward = layer, x_ND, backward
        self.context = Context(attend=no_attention, moe_dispatch=how, routes=RouteTape(choices))
        self.out_ND = x_ND

    def __call__(self) -> None:
        """Run it once."""
        with torch.set_grad_enabled(self.backward):
            self.out_ND = self.layer(self.x_ND, self.context)
            if self.backward:
                self.layer.zero_grad()
                self.x_ND.grad = None
                self.out_ND.backward(torch.ones_like(self.out_ND))

    def results(self) -> list[Tensor]:
        """Return the output and, after a backward pass, the gradients."""
        grads = [self.x_ND.grad, *(p.grad for p in self.layer.parameters())]
        return [t.detach().clone() for t in (self.out_ND, *grads) if t is not None]


def no_attention(_layer: int, _q: Tensor, _k: Tensor, _v: Tensor) -> Tensor:
    """Stand where attention would; a feed-forward never asks."""
    raise AssertionError("a feed-forward does not attend")


def layer_row(
    num_experts: int, top_k: int, tokens: int, choice: str, dtype: torch.dtype, turns: int
) -> dict[str, object]:
    """Return one line of the layer table."""
    spec = MoEModel(num_layers=1, d_model=D_MODEL, num_heads=4, num_experts=num_experts, top_k=top_k, d_expert=D_EXPERT)
    layer = build_model(spec, VOCAB, seed=0).blocks[0].get_submodule("ffn").to(dtype)
    assert isinstance(layer, MoELayer)
    x_ND = torch.randn(tokens, D_MODEL, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    choices = {0: choose(layer, x_ND, choice)}
    calls = {how: LayerCall(layer, x_ND, choices, how, backward=True) for how in DISPATCHES}
    reads = {how: check_and_count(calls[how], calls["where"], dtype) for how in DISPATCHES}
    both_s = timed(dict(calls), turns)
    forward_s = timed({how: LayerCall(layer, x_ND, choices, how, backward=False) for how in DISPATCHES}, turns)
    return {
        "experts": num_experts,
        "top_k": top_k,
        "tokens": tokens,
        "choice": choice,
        "dtype": str(dtype).removeprefix("torch."),
        **imbalance(choices[0], num_experts),
        "host_reads": reads,
        "forward_ms": milliseconds(forward_s),
        "both_ms": milliseconds(both_s),
        **gains("forward", forward_s),
        **gains("both", both_s),
    }


def choose(layer: MoELayer, x_ND: Tensor, choice: str) -> Tensor:
    """Return experts [N, k]: the fresh router's, or drawn without replacement by Zipf's law."""
    if choice == "even":
        return layer.route(x_ND.detach(), Context(attend=no_attention))[0]
    weight_E = 1 / torch.arange(1, len(layer.down) + 1).double() ** ZIPF_EXPONENT
    return torch.multinomial(weight_E.expand(len(x_ND), -1), layer.top_k, generator=torch.Generator().manual_seed(0))


def imbalance(expert_Nk: Tensor, num_experts: int) -> dict[str, object]:
    """Return how unevenly tokens fall on experts."""
    count_E = expert_Nk.flatten().bincount(minlength=num_experts)
    busiest = float(count_E.max() / count_E.double().mean())
    return {"busiest_over_mean": round(busiest, 2), "empty_experts": int((count_E == 0).sum())}


def check_and_count(call: LayerCall, reference: LayerCall, dtype: torch.dtype) -> int:
    """Return the host reads of one call; stop if its results are not the reference's."""
    reference()
    expected = reference.results()
    with HostReads() as reads:
        call()
    tolerance = TOLERANCE * (20 if dtype is torch.bfloat16 else 1)
    for ours, theirs in zip(call.results(), expected, strict=True):
        scale = float(theirs.float().abs().max()) or 1.0
        difference = float((ours.float() - theirs.float()).abs().max()) / scale
        if not difference <= tolerance:
            sys.exit(f"{call.context.moe_dispatch} differs from where by {difference} of the largest value")
    return reads.total


class StepCall:
    """A rollout on forced lengths and an update on its rows, under one dispatch in both."""

    def __init__(self, spec: MoEModel, how: Dispatch) -> None:
        self.model = build_model(spec, VOCAB, seed=0)
        knobs = EngineKnobs(
            moe_dispatch=how,
            share_prefill=True,
            compact_finished=True,
            layout="packed",
            micro_batch_tokens=4096,
            handover="alias",
        )
        self.engine = RolloutEngine(spec, knobs, vocab_size=VOCAB, pad_id=PAD, eos_id=EOS, shared=self.model)
        self.trainer = Trainer(self.model, AlgorithmSpec(lr=1e-6, max_completion_len=128), knobs, PAD)
        self.batch, self.lengths_B = batch_of(rows(), VOCAB), torch.tensor([c for _, c in rows().rows])
        self.grad_norm, self.train_tokens = 0.0, 0

    def rollout(self) -> None:
        """Generate every row to its forced length."""
        prompts = self.batch.rollout.prompts
        self.engine.generate(prompts, max_completion_len=128, temperature=1.0, seed=0, forced_lengths_B=self.lengths_B)

    def update(self) -> None:
        """Train on fixed rows: plan, inputs, forward, loss, backward, clipping, AdamW."""
        prepared = PreparedBatch(scored=self.batch, old_logprobs_BT=None, ref_logprobs_BT=None)
        stats = self.trainer.update(prepared, weights_version=0, recorder=Recorder())
        self.grad_norm, self.train_tokens = stats.grad_norm, stats.padded_tokens


def rows() -> Picked:
    """Return 64 rows in groups of one prompt, completions log-normal around 32 tokens."""
    noise_B = torch.randn(GROUPS * GROUP_SIZE, generator=torch.Generator().manual_seed(0))
    length_B = (32 * (0.6 * noise_B).exp()).round().clamp(4, 112).int().tolist()
    return Picked(
        rows=[(12, length) for length in length_B], group_B=[row // GROUP_SIZE for row in range(len(length_B))]
    )


def step_row(name: str, turns: int) -> dict[str, object]:
    """Return one line of the step table."""
    spec = MODELS[name]
    calls = {how: StepCall(spec, how) for how in DISPATCHES}
    rollout_s = timed({how: call.rollout for how, call in calls.items()}, turns)
    update_s = timed({how: call.update for how, call in calls.items()}, turns)
    first = calls["where"].grad_norm
    for how, call in calls.items():
        if not abs(call.grad_norm / first - 1) <= TOLERANCE:
            sys.exit(f"{how} has gradient norm {call.grad_norm}, where has {first}")
    step_s = {how: [r + u for r, u in zip(rollout_s[how], update_s[how], strict=True)] for how in DISPATCHES}
    return {
        "model": name,
        "num_parameters": num_parameters(calls["where"].model),
        "train_tokens": calls["where"].train_tokens,
        "rollout_ms": milliseconds(rollout_s),
        "update_ms": milliseconds(update_s),
        **gains("rollout", rollout_s),
        **gains("update", update_s),
        **gains("step", step_s),
    }


def timed(calls: dict[Dispatch, Callable[[], None]], turns: int) -> dict[Dispatch, list[float]]:
    """Return CPU seconds of each call, all taking turns, in changing order; the first turn is dropped."""
    seconds: dict[Dispatch, list[float]] = {how: [] for how in calls}
    for turn in range(turns + 1):
        for how in DISPATCHES[turn % 3 :] + DISPATCHES[: turn % 3]:
            start_s = time.process_time()
            calls[how]()
            seconds[how].append(time.process_time() - start_s)
    return {how: times[1:] for how, times in seconds.items()}


def milliseconds(seconds: dict[Dispatch, list[float]]) -> dict[str, float]:
    """Return each arm's median."""
    return {how: round(1e3 * statistics.median(times), 3) for how, times in seconds.items()}


def gains(what: str, seconds: dict[Dispatch, list[float]]) -> dict[str, dict[str, float]]:
    """Return how many times as fast sort and grouped are as where, with 95 % intervals over paired turns."""
    found = {how: ratio_interval(seconds["where"], seconds[how]) for how in ("sort", "grouped")}
    return {
        f"{what}_{how}_vs_where": {
            "ratio": round(i.value, 3),
            "low": round(i.low, 3),
            "high": round(i.high, 3),
            "n": i.n,
        }
        for how, i in found.items()
    }


def show(table: Sequence[dict[str, object]]) -> None:
    """Print a table of its own columns."""
    print(" | ".join(table[0]))
    for row in table:
        print(" | ".join(cell(value) for value in row.values()))


def cell(value: object) -> str:
    """Return one cell: a ratio with its interval, the arms' values, or plain text."""
    if not isinstance(value, dict):
        return str(value)
    if "ratio" in value:
        return f"{value['ratio']} ({value['low']} to {value['high']})"
    return "/".join(str(v) for v in value.values())


def measure(*, is_quick: bool) -> dict[str, object]:
    """Return both tables."""
    turns, float32 = (3, torch.float32) if is_quick else (11, torch.float32)
    cases = [(e, k, tokens, "even", float32) for e, k in EXPERTS for tokens in TOKENS]
    cases += [(e, k, 2048, "skewed", float32) for e, k in EXPERTS[::2]]
    cases += [(64, 8, tokens, "even", torch.bfloat16) for tokens in TOKENS]
    layers = [layer_row(*case, turns) for case in (cases[:1] + cases[4:5] if is_quick else cases)]
    show(layers)
    steps = [step_row(name, 3 if is_quick else 7) for name in (list(MODELS)[:1] if is_quick else MODELS)]
    show(steps)
    return {"layers": layers, "steps": steps}


def main() -> int:
    """Measure, print and, unless quick, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two layers and one model, nothing written")
    is_quick = parser.parse_args().quick
    torch.set_num_threads(1)
    load, start_s = os.getloadavg()[0], time.monotonic()
    with machine_lock(lambda _pid, _s: None):
        tables = measure(is_quick=is_quick)
    result: dict[str, object] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "threads": 1,
        "clock": "CPU seconds of the process",
        "layer": {"d_model": D_MODEL, "d_expert": D_EXPERT},
        "took_s": round(time.monotonic() - start_s),
        **tables,
    }
    if not is_quick:
        replace(HERE / "results" / "moe.json", json.dumps(result, indent=2) + "\n")
    print(f"took {result['took_s']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
