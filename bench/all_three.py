"""The three optimisations on one training update of a model with experts: each alone, in pairs, and all together.

`python bench/all_three.py [--quick]` writes `bench/results/all_three.json` in more than five minutes on two cores
(`--quick` prints a small table and writes nothing). The baseline is packed micro-batches under a block-diagonal mask
that every layer builds again, layer inputs copied away and fetched back one after the other, and the where-loop over
unbound expert weights. *metadata* takes the plan's runs instead of a mask (`cached_mask` keeps the mask and builds it
once: what caching alone is worth), *reload* fetches a layer ahead, *experts* is one sort and one grouped product.
`no_copies` is all three without offloading: what the memory costs.

The link to the far side is emulated: a copy takes a chosen part of a layer's recompute and backward, measured first.
Arms take turns in changing order, one compute and one copier thread, by wall clock (a wait is what is to be seen); the
first turn is dropped. All arms must agree on the gradient norm, or the script stops.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from metadata_arms import Builds, engine_attends_by  # noqa: E402
from steptune.core.job import AlgorithmSpec  # noqa: E402
from steptune.core.model import MoEModel  # noqa: E402
from steptune.engine.events import Recorder  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.model import build_model, num_parameters  # noqa: E402
from steptune.engine.offload.host_link import HostLink  # noqa: E402
from steptune.engine.offload.places import MemoryPlace, Pool, Throttled  # noqa: E402
from steptune.engine.offload.step import Offload  # noqa: E402
from steptune.engine.probe_batch import Picked, batch_of  # noqa: E402
from steptune.engine.trainer import PreparedBatch, Trainer  # noqa: E402
from steptune.stats.ratio import ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

VOCAB = 64
MODELS = {
    "8 experts, top 2": MoEModel(num_layers=6, d_model=256, num_heads=8, num_kv_heads=4, d_expert=512),
    "64 experts, top 8": MoEModel(
        num_layers=6, d_model=256, num_heads=8, num_kv_heads=4, num_experts=64, top_k=8, d_expert=128
    ),
}
COPY_OVER_LAYER = 0.25
"""Seconds of one copy over seconds of one layer's recompute and backward: chosen, not a GPU's."""
PROMPT_LEN, MEDIAN_LEN, SPREAD = 16, 40, 0.6
TOLERANCE = 1e-3
"""Largest relative difference of gradient norms between arms: float32 sums in another order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One combination."""

    metadata: Literal["dense_per_layer", "dense_cached", "packed"] = "dense_per_layer"
    depth: int | None = 0
    """Layers fetched ahead; None: nothing is copied away."""
    dispatch: Literal["where", "grouped"] = "where"


ARMS = {
    "baseline": Arm(),
    "cached_mask": Arm(metadata="dense_cached"),
    "metadata": Arm(metadata="packed"),
    "reload": Arm(depth=1),
    "experts": Arm(dispatch="grouped"),
    "metadata_reload": Arm(metadata="packed", depth=1),
    "metadata_experts": Arm(metadata="packed", dispatch="grouped"),
    "reload_experts": Arm(depth=1, dispatch="grouped"),
    "all_three": Arm(metadata="packed", depth=1, dispatch="grouped"),
    "no_copies": Arm(metadata="packed", depth=None, dispatch="grouped"),
}


class Update:
    """One training update on fixed rows under one arm."""

    def __init__(self, spec: MoEModel, arm: Arm, rows: Picked, bytes_per_s: float) -> None:
        knobs = EngineKnobs(layout="packed", micro_batch_tokens=10**9, recompute=True, moe_dispatch=arm.dispatch)
        self.arm, self.builds = arm, Builds()
        self.trainer = Trainer(
            build_model(spec, VOCAB, seed=0), AlgorithmSpec(lr=1e-6, max_completion_len=4096), knobs, 0
        )
        if arm.depth is not None:
            pool = Pool(lambda n: Throttled(MemoryPlace(n), n, bytes_per_s=bytes_per_s))
            self.trainer.gradients.offload = Offload(lambda: HostLink(pool), is_unified=False, depth=arm.depth)
        self.prepared = PreparedBatch(scored=batch_of(rows, VOCAB), old_logprobs_BT=None, ref_logprobs_BT=None)
        self.recorder = Recorder()
        self.grad_norm, self.backward_s = 0.0, 0.0

    def __call__(self) -> float:
        """Take the update and return its wall seconds."""
        patched = engine_attends_by(self.arm.metadata, self.builds) if self.arm.metadata != "packed" else nullcontext()
        self.recorder.forget()
        start_s = time.perf_counter()
        with patched:
            stats = self.trainer.update(self.prepared, weights_version=0, recorder=self.recorder)
        seconds = time.perf_counter() - start_s
        self.grad_norm = stats.grad_norm
        self.backward_s = sum(span.seconds for span in self.recorder.spans if span.phase == "train/backward")
        return seconds


def rows_of(num_rows: int) -> Picked:
    """Return rows in groups of eight, completions log-normal."""
    noise_B = torch.randn(num_rows, generator=torch.Generator().manual_seed(0))
    lengths = (MEDIAN_LEN * (SPREAD * noise_B).exp()).round().clamp(4, 160).int().tolist()
    return Picked(rows=[(PROMPT_LEN, length) for length in lengths], group_B=[row // 8 for row in range(num_rows)])


def link_speed(spec: MoEModel, rows: Picked) -> tuple[float, float]:
    """Return bytes per second of the emulated link, and the layer's seconds it is set by (two dispatches' mean)."""
    layers_s = list[float]()
    for dispatch in ("where", "grouped"):
        plain = Update(spec, Arm(metadata="packed", depth=None, dispatch=dispatch), rows, 1.0)
        plain()
        backwards_s = list[float]()
        for _ in range(3):
            plain()
            backwards_s.append(plain.backward_s)
        layers_s.append(min(backwards_s) / spec.num_layers)
    layer_s = statistics.fmean(layers_s)
    input_bytes = sum(map(sum, rows.rows)) * spec.d_model * 4
    return input_bytes / (COPY_OVER_LAYER * layer_s), layer_s


def table_of(name: str, num_rows: int, num_turns: int) -> list[dict[str, object]]:
    """Return one line an arm."""
    spec, rows = MODELS[name], rows_of(num_rows)
    bytes_per_s, layer_s = link_speed(spec, rows)
    updates = {arm: Update(spec, ARMS[arm], rows, bytes_per_s) for arm in ARMS}
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    names = list(ARMS)
    for turn in range(num_turns + 1):
        for arm in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds[arm].append(updates[arm]())
    expected = updates["baseline"].grad_norm
    table = list[dict[str, object]]()
    for arm, update in updates.items():
        if not abs(update.grad_norm / expected - 1) <= TOLERANCE:
            sys.exit(f"{arm} has gradient norm {update.grad_norm}, the baseline has {expected}")
        found = ratio_interval(seconds["baseline"][1:], seconds[arm][1:])
        offload = update.trainer.gradients.offload
        decision = None if offload is None else offload.decision
        table.append(
            {
                "model": name,
                "arm": arm,
                "update_s": round(statistics.median(seconds[arm][1:]), 4),
                "speed_over_baseline": {
                    "ratio": round(found.value, 3),
                    "low": round(found.low, 3),
                    "high": round(found.high, 3),
                    "n": found.n,
                },
                "mask_builds_per_update": update.builds.count // (num_turns + 1),
                "offload": None if decision is None else decision.because,
                "layer_ms": round(1e3 * layer_s, 2),
                "positions": sum(map(sum, rows.rows)),
                "num_parameters": num_parameters(update.trainer.model),
            }
        )
    return table


def show(table: list[dict[str, object]]) -> None:
    """Print model, arm, seconds and ratio."""
    for row in table:
        gain = row["speed_over_baseline"]
        assert isinstance(gain, dict)
        print(
            f"{row['model']:18} {row['arm']:17} {row['update_s']} s  {gain['ratio']} ({gain['low']} to {gain['high']}) "
            f"builds {row['mask_builds_per_update']}  {row['offload'] or ''}"
        )


def main() -> int:
    """Measure, print and, unless quick, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: small, and nothing is written")
    is_quick = parser.parse_args().quick
    torch.set_num_threads(1)
    load, started_s = os.getloadavg()[0], time.monotonic()
    with machine_lock(lambda _pid, _s: None):
        tables = [table_of(name, *((40, 2) if is_quick else (40, 5))) for name in MODELS]
    for table in tables:
        show(table)
    result = {
        "what": "packed metadata once, prefetched reload and grouped experts on one training update",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "copy_over_layer": COPY_OVER_LAYER,
        "threads": {"compute": 1, "copier": 1},
        "clock": "wall",
        "took_s": round(time.monotonic() - started_s),
        "rows": [row for table in tables for row in table],
    }
    if not is_quick:
        replace(HERE / "results" / "all_three.json", json.dumps(result, indent=2) + "\n")
    print(f"took {result['took_s']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
