"""How far healthy levers and seeded faults move a replayed update, in units of what update parity allows.

`python bench/parity.py [--family dense|moe|hybrid] [--quick]` replays three recorded batches of each family's example
model and prints two tables; four minutes a family on one core. Nothing here is a time: a busy machine prints the same.

Healthy: every layout, micro-batches of 256 to 8192 tokens, one rank and two, each against a baseline of every layout.
A number above 1 is a false alarm. Faults: each against the same baselines; one below 1 is missed.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import JobSpec, LossAggregation
from steptune.engine import gradients, inputs
from steptune.engine.damping import Damping
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import Run
from steptune.engine.new_model import new_model
from steptune.engine.parity import param_distance, replay, save_batch
from steptune.engine.plan_shared import can_share_prompts
from steptune.engine.probe_batch import Picked, batch_of, typical_rows
from steptune.envs.vocabulary import vocabulary_of
from steptune.guard.update_parity import (
    BAND_FACTOR,
    GRAD_NORM_REL_TOL,
    PROBE_ROUNDING_NAT,
    ROUNDING_DISTANCE,
    check_update_parity,
    probe_gap,
)
from steptune.store.job_file import load_job

HERE = Path(__file__).resolve().parent
FAMILIES = ("dense", "moe", "hybrid")
MICRO_BATCH_TOKENS = (256, 1024, 4096, 8192)
BASELINES = {"padded": 456, "sorted": 1024, "packed": 4096, "shared_prefix": 1024}
"""Layout and micro-batch tokens of what the others are held against."""
NUM_BATCHES, NUM_PROMPTS, SHUFFLES = 3, 8, (1, 2, 3)
LIVELY = 4.0
"""Fresh matrices times this: fresh ones give every token the same probability, and hide what attention does."""
Fault = tuple[dict[str, object], Callable[[], AbstractContextManager[object]]]
"""Fields of the algorithm that are changed, and what is broken meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One family's recorded batches, and the damping that all of their replays share."""

    job: JobSpec
    folder: Path
    damping: Damping
    numbers: "Iterator[int]"

    def run(self, seed: int | None = None, algorithm: dict[str, object] | None = None, **knobs: object) -> ParityOutput:
        """Replay the batches."""
        job = self.job.model_copy(update={"algorithm": self.job.algorithm.model_copy(update=algorithm or {})})
        settings = EngineKnobs.model_validate({"train_threads": 1, "logprob_batch_tokens": 4096, **knobs}).model_dump()
        wanted = ParityInput(settings=settings, batches_dir=str(self.folder / "batches"), shuffle_seed=seed)
        return replay(job, wanted, self.start(), self.folder / f"{next(self.numbers)}.pt", self.damping)

    def start(self) -> dict[str, Tensor]:
        """Return weights under which tokens differ."""
        return {n: LIVELY * x if x.ndim == 2 else x.clone() for n, x in new_model(self.job).state_dict().items()}


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What a candidate is held against."""

    plain: ParityOutput
    shuffled: tuple[ParityOutput, ...]

    def used_frac(self, ours: ParityOutput) -> tuple[str, float]:
        """Return which of the guard's three limits ``ours`` uses most, and how much of it; the guard must agree."""
        band = [param_distance(self.plain, s) for s in self.shuffled]
        probes = [probe_gap(s.probe_logprobs, self.plain.probe_logprobs) or 0.0 for s in self.shuffled]
        distance, gap = param_distance(self.plain, ours), probe_gap(ours.probe_logprobs, self.plain.probe_logprobs)
        pairs = zip(ours.grad_norms, self.plain.grad_norms, strict=True)
        used = {
            "distance": distance / max(BAND_FACTOR * max(band), ROUNDING_DISTANCE),
            "probe": (gap or 0.0) / max(BAND_FACTOR * max(probes), PROBE_ROUNDING_NAT),
            "norms": max(abs(a - b) / b for a, b in pairs) / GRAD_NORM_REL_TOL,
        }
        verdict = check_update_parity(
            distance=distance,
            shuffled_band=band,
            probe_gap=gap,
            probe_band=probes,
            candidate_grad_norms=ours.grad_norms,
            baseline_grad_norms=self.plain.grad_norms,
        )
        assert (verdict.judgement == "PASS") == (max(used.values()) <= 1), verdict
        worst = max(used, key=lambda name: used[name])
        return f"{worst} {distance:.1e}/{max(band):.1e}", used[worst]


def case_of(family: str, folder: Path) -> Case:
    """Return groups of the example's own lengths, with random tokens and advantages."""
    job = load_job(HERE.parent / "examples" / f"math-{family}.toml")
    algorithm = job.algorithm.model_copy(update={"prompts_per_step": NUM_PROMPTS, "num_updates": 2})
    job, size = job.model_copy(update={"algorithm": algorithm}), algorithm.group_size
    rows = typical_rows(job)
    for number in range(NUM_BATCHES):
        lengths = [rows[(i + 5 * number) % len(rows)][1] for i in range(len(rows))]
        picked = [(rows[i - i % size][0], length) for i, length in enumerate(lengths)]
        batch = batch_of(Picked(rows=picked, group_B=[i // size for i in range(len(rows))]), vocabulary_of(job).size)
        save_batch(folder / "batches", number, batch)
    return Case(job=job, folder=folder, damping=Damping(), numbers=count())


def one_document(runs: list[Run], *args: object, **how: object) -> object:
    """Stand in for `attend_runs`: packed rows see the rows before them."""
    return ATTEND_RUNS([Run(sum(run.width * run.num_rows for run in runs), 1)], **how)  # type: ignore[arg-type]


def one_token_short(*args: object, **how: object) -> Tensor:
    """Stand in for `aggregation_weights`: one token of the update is left out."""
    weight_BT = AGGREGATION_WEIGHTS(*args, **how)  # type: ignore[arg-type]
    row, token = (int(i) for i in weight_BT.nonzero()[0])
    weight_BT[row, token] = 0
    return weight_BT


ATTEND_RUNS, AGGREGATION_WEIGHTS = inputs.attend_runs, gradients.aggregation_weights
FAULTS: dict[str, Fault] = {
    "one token of an update left out": ({}, lambda: patch.object(gradients, "aggregation_weights", one_token_short)),
    "gradients halved by a normaliser": (
        {},
        lambda: patch.object(gradients, "aggregation_weights", lambda *a, **k: AGGREGATION_WEIGHTS(*a, **k) / 2),
    ),
    "packing leak": ({}, lambda: patch.object(inputs, "attend_runs", one_document)),
    "temperature 1.02 for 1": ({"temperature": 1.02}, nullcontext),
    "another aggregation": ({"loss_aggregation": LossAggregation.SEQ_MEAN_TOKEN_MEAN}, nullcontext),
    "gradients clipped at half": ({"max_grad_norm": 0.5}, nullcontext),
    "learning rate 1 % too high": ({"lr": 1.01e-4}, nullcontext),
}


def layouts_of(case: Case) -> list[str]:
    """Return the layouts that the family can train in."""
    return [layout for layout in BASELINES if layout != "shared_prefix" or can_share_prompts(case.job.model)]


def tables(family: str, *, is_quick: bool) -> bool:
    """Print the family's tables; return whether nothing healthy failed and no fault passed."""
    with tempfile.TemporaryDirectory() as name:
        case = case_of(family, Path(name))
        baselines = {
            layout: Baseline(
                plain=case.run(layout=layout, micro_batch_tokens=BASELINES[layout]),
                shuffled=tuple(
                    case.run(seed, layout=layout, micro_batch_tokens=BASELINES[layout]) for seed in SHUFFLES
                ),
            )
            for layout in layouts_of(case)[: 1 if is_quick else None]
        }
        tokens, ranks = (MICRO_BATCH_TOKENS[:1], (1,)) if is_quick else (MICRO_BATCH_TOKENS, (1, 2))
        is_right = True
        for layout in layouts_of(case):
            told = list[tuple[float, str]]()
            for number in tokens:
                for num_ranks in ranks:
                    ours = case.run(layout=layout, micro_batch_tokens=number, train_ranks=num_ranks)
                    for base, baseline in baselines.items():
                        text, used = baseline.used_frac(ours)
                        told.append((used, f"{number} tokens, {num_ranks} ranks against {base}: {text}"))
            print(f"{family} | healthy {layout} | {max(told)[0]:.2f} | {max(told)[1]}", flush=True)
            is_right &= max(told)[0] <= 1
        for fault, (algorithm, broken) in FAULTS.items():
            with broken():
                ours = case.run(algorithm=algorithm, layout="packed", micro_batch_tokens=1024)
            told = [(used, f"against {b}: {text}") for b, (text, used) in _used(baselines, ours)]
            print(f"{family} | fault {fault} | {min(told)[0]:.3g} | {min(told)[1]}", flush=True)
            is_right &= min(told)[0] > 1
        return is_right


def _used(baselines: dict[str, Baseline], ours: ParityOutput) -> Iterator[tuple[str, tuple[str, float]]]:
    for name, baseline in baselines.items():
        yield name, baseline.used_frac(ours)


def main() -> int:
    """Print the tables of one family or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one baseline, one micro-batch, one rank")
    parser.add_argument("--family", choices=FAMILIES, help="this one alone")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("family | what | part of the limit used | where most (healthy) or least (faults): distance/band")
    families = (args.family,) if args.family else FAMILIES
    are_right = [tables(family, is_quick=args.quick) for family in families]
    return 0 if all(are_right) else 1


if __name__ == "__main__":
    sys.exit(main())
