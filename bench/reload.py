"""Checkpointed activations reloaded ahead of use: what overlap is worth, and what a whole step pays for the memory.

`python bench/reload.py [--quick]` writes `bench/results/reload.json` in under four minutes on two cores (`--quick`
prints a small table and writes nothing). Three tables.

*overlap*: one backward pass of 12 real blocks (recompute and backward, one thread) over a copier thread whose bandwidth
is limited so that a copy takes m = 0.25 to 2 times a layer's c. Serial, lazy and prefetched reloading, the last two
also with a host that waits inside every layer. Measured against N (c + m) and m + c + (N - 1) max(c, m), with c and m
measured in the same turns; target: every prefetched arm within 5 %, and lazy with a host sync gains nothing.
The link is emulated: ratios of copy to compute are chosen, not a GPU's.

*whole_step*: a training step of the engine that keeps activations, recomputes, and recomputes from a file; seconds,
and the peak of resident memory of a process of its own. The file may never leave the page cache: its speed is this
machine's, and the memory saved is the process's, not the machine's.

*switched_off*: what offloading says of itself in situations where it cannot help.

Arms take turns in one process by wall clock; the first turn is dropped.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from reload_arms import ARMS, NUM_LAYERS, Backward  # noqa: E402
from steptune.core.job import AlgorithmSpec  # noqa: E402
from steptune.core.model import DenseModel  # noqa: E402
from steptune.engine.events import Recorder  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.model import build_model  # noqa: E402
from steptune.engine.offload.closed_form import overlapped_s, serial_s  # noqa: E402
from steptune.engine.offload.decide import MIN_BYTES  # noqa: E402
from steptune.engine.offload.devices import offload_to_file, offload_to_host  # noqa: E402
from steptune.engine.offload.host_link import HostLink  # noqa: E402
from steptune.engine.offload.places import FilePlaces, MemoryPlace, Place, Pool, Throttled  # noqa: E402
from steptune.engine.offload.step import Offload  # noqa: E402
from steptune.engine.probe_batch import Picked, batch_of  # noqa: E402
from steptune.engine.trainer import PreparedBatch, Trainer  # noqa: E402
from steptune.stats.ratio import ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

RATIOS = (0.25, 0.5, 0.9, 1.0, 2.0)
"""Copy time over layer time."""
MAX_ERROR = 0.05
"""Largest relative distance of a prefetched arm from the closed form."""
MAX_LAZY_GAIN = 0.03
"""Gain over serial below which lazy double buffering with a host sync counts as having none."""
VOCAB = 64
STEP_MODEL = DenseModel(num_layers=12, d_model=128, num_heads=4, num_kv_heads=2, d_ff=256)
STEP_ROWS, STEP_PROMPT, STEP_COMPLETION = 64, 16, 112
"""8,192 positions in one micro-batch: 4.2 MB a layer input, seven times a layer's gradients. With fewer positions there
is little to save: gradients grow while inputs are used up, so the peak moves to the end of the backward pass."""
QUICK_ROWS = 40
"""2.6 MB a layer input: still above the threshold."""
WHOLE = 10**9
STEP_ARMS = ("keep", "recompute", "file", "slow_file_serial", "slow_file_prefetched")
SLOW_BYTES_PER_S = 150e6
"""Bandwidth of the slow file, copy by copy: a disk across a network."""
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Freed tensors go back to the system, so that peaks mean something."""


def turns(calls: dict[str, Callable[[], float]], num_turns: int) -> dict[str, list[float]]:
    """Return what each call returns, all taking turns; the first turn is dropped."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(num_turns + 1):
        for name, call in calls.items():
            seconds[name].append(call())
    return {name: times[1:] for name, times in seconds.items()}


def gain(slow_s: Sequence[float], fast_s: Sequence[float]) -> dict[str, float]:
    """Return how many times as fast, with the 95 % interval over paired turns."""
    found = ratio_interval(slow_s, fast_s)
    return {"ratio": round(found.value, 3), "low": round(found.low, 3), "high": round(found.high, 3), "n": found.n}


def overlap_rows(ratio: float, num_positions: int, num_turns: int) -> list[dict[str, object]]:
    """Return one row per arm for one ratio of copy to layer time."""
    backward = Backward(num_positions)
    layer_s = min(backward.seconds(ARMS["compute_only"], 1.0) for _ in range(3)) / NUM_LAYERS
    checks = list(backward.checks)
    bytes_per_s = backward.input_bytes / (ratio * layer_s)

    layer_in_arm_s: dict[str, list[float]] = {name: [] for name in ARMS}

    def timed(name: str) -> Callable[[], float]:
        def call() -> float:
            seconds = backward.seconds(ARMS[name], bytes_per_s)
            layer_in_arm_s[name].append(statistics.fmean(backward.layer_s))
            if backward.checks != checks:
                sys.exit(f"{name} computed with other inputs")
            return seconds

        return call

    calls = {name: timed(name) for name in ARMS} | {"copy": lambda: backward.copy_seconds(bytes_per_s)}
    seconds = turns(calls, num_turns)
    layers_s = [total_s / NUM_LAYERS for total_s in seconds["compute_only"]]
    c, m = statistics.median(layers_s), statistics.median(seconds["copy"])
    rows = list[dict[str, object]]()
    for name in ARMS:
        if name == "compute_only":
            continue
        formula = serial_s if name in ("serial", "lazy_host_sync") else overlapped_s
        expected_s = [
            formula(NUM_LAYERS, compute_s=layer_s, copy_s=copy_s)
            for layer_s, copy_s in zip(layers_s, seconds["copy"], strict=True)
        ]
        rows.append(
            {
                "m_over_c": round(m / c, 3),
                "layer_ms": round(1e3 * c, 2),
                "copy_ms": round(1e3 * m, 2),
                "arm": name,
                "layer_ms_in_arm": round(1e3 * statistics.median(layer_in_arm_s[name][1:]), 2),
                "measured_ms": round(1e3 * statistics.median(seconds[name]), 1),
                "closed_form_ms": round(1e3 * statistics.median(expected_s), 1),
                "measured_over_closed_form": gain(seconds[name], expected_s),
                "gain_over_serial": gain(seconds["serial"], seconds[name]),
            }
        )
    return rows


def trainer_of(arm: str, folder: Path, num_layers: int) -> Trainer:
    """Return a trainer of one arm; every arm takes the same step."""
    model = build_model(STEP_MODEL.model_copy(update={"num_layers": num_layers}), VOCAB, seed=0)
    knobs = EngineKnobs(layout="packed", micro_batch_tokens=WHOLE, recompute=arm != "keep", head_tile_tokens=512)
    trainer = Trainer(model, AlgorithmSpec(group_size=8, max_completion_len=4096, lr=1e-6), knobs, 0)
    if arm == "file":
        trainer.gradients.offload = offload_to_file(folder)
    elif arm.startswith("slow_file"):
        places = FilePlaces(folder)
        pool = Pool(lambda num_bytes: throttled(places.make(num_bytes), num_bytes))
        trainer.gradients.offload = Offload(
            lambda: HostLink(pool), is_unified=False, depth=int(arm == "slow_file_prefetched")
        )
    return trainer


def throttled(place: Place, num_bytes: int, bytes_per_s: float = SLOW_BYTES_PER_S) -> Place:
    """Return ``place`` behind a link of limited bandwidth."""
    return Throttled(place, num_bytes, bytes_per_s=bytes_per_s)


def step_call(trainer: Trainer, num_rows: int, norms: list[float]) -> Callable[[], float]:
    """Return a call that takes one training step and gives its wall seconds."""
    rows = Picked(rows=[(STEP_PROMPT, STEP_COMPLETION)] * num_rows, group_B=[row // 8 for row in range(num_rows)])
    batch, recorder = batch_of(rows, VOCAB), Recorder()
    prepared = PreparedBatch(scored=batch, old_logprobs_BT=None, ref_logprobs_BT=None)

    def call() -> float:
        start_s = time.perf_counter()
        norms.append(trainer.update(prepared, weights_version=0, recorder=recorder).grad_norm)
        return time.perf_counter() - start_s

    return call


def whole_step_rows(num_layers: int, num_rows: int, num_turns: int) -> list[dict[str, object]]:
    """Return time and peak memory of each arm."""
    with tempfile.TemporaryDirectory() as folder:
        norms: dict[str, list[float]] = {arm: [] for arm in STEP_ARMS}
        trainers = {arm: trainer_of(arm, Path(folder), num_layers) for arm in STEP_ARMS}
        seconds = turns({arm: step_call(trainers[arm], num_rows, norms[arm]) for arm in STEP_ARMS}, num_turns)
        if any(norms[arm] != norms["keep"] for arm in STEP_ARMS):
            sys.exit(f"gradient norms differ: {norms}")
        decided = {arm: t.gradients.offload.decision for arm, t in trainers.items() if t.gradients.offload is not None}
        peaks = {arm: peak_mb(arm, folder, num_layers, num_rows) for arm in STEP_ARMS}
    input_mb = num_rows * (STEP_PROMPT + STEP_COMPLETION) * STEP_MODEL.d_model * 4 / 1e6
    rows = list[dict[str, object]]()
    for arm in STEP_ARMS:
        decision = decided.get(arm)
        rows.append(
            {
                "arm": arm,
                "num_layers": num_layers,
                "layer_input_mb": round(input_mb, 2),
                "step_s": round(statistics.median(seconds[arm]), 3),
                "time_vs_recompute": gain(seconds[arm], seconds["recompute"]),
                "peak_mb_of_the_step": round(peaks[arm], 1),
                "saved_mb_vs_recompute": round(peaks["recompute"] - peaks[arm], 1),
                "says": None if decision is None else decision.because,
            }
        )
    return rows


def peak_mb(arm: str, folder: str, num_layers: int, num_rows: int) -> float:
    """Return the peak of resident memory of one step over what the process held before it, in its own process."""
    command = [sys.executable, __file__, "--child", arm, folder, str(num_layers), str(num_rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **MALLOC})
    return float(done.stdout)


def child(arm: str, folder: str, num_layers: int, num_rows: int) -> float:
    """Take a step to warm up, reset the peak, take another, and return the growth in MB."""
    torch.set_num_threads(1)
    call = step_call(trainer_of(arm, Path(folder), num_layers), num_rows, [])
    call()
    gc.collect()
    before_kb = _status_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    call()
    return (_status_kb("VmHWM") - before_kb) * 1024 / 1e6


def _status_kb(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def switched_off_rows(num_rows: int) -> list[dict[str, object]]:
    """Return what offloading decides by itself; the last two are measured by its own first step."""
    rows = list[dict[str, object]]()

    def note(situation: str, offload: Offload, num_layers: int, rows_run: int, num_steps: int) -> None:
        trainer = trainer_of("recompute", Path(), num_layers)
        trainer.gradients.offload = offload
        call = step_call(trainer, rows_run, [])
        for step in range(num_steps):
            call()
            assert offload.decision is not None, "a step decides"
            depth, because = offload.decision.depth, offload.decision.because
            rows.append({"situation": situation, "step": step + 1, "prefetch_depth": depth, "because": because})

    def over_link(bytes_per_s: float) -> Offload:
        pool = Pool(lambda num_bytes: throttled(MemoryPlace(num_bytes), num_bytes, bytes_per_s))
        return Offload(lambda: HostLink(pool), is_unified=False)

    small = (MIN_BYTES - 1) // (4 * STEP_MODEL.d_model * (STEP_PROMPT + STEP_COMPLETION)) // 8 * 8
    note("host memory on a CPU", offload_to_host(torch.device("cpu")), 3, num_rows, 1)
    note("two layers", over_link(1e12), 2, num_rows, 1)
    note("a small micro-batch", over_link(1e12), 3, small, 1)
    note("a link of 6 MB/s", over_link(6e6), 3, num_rows, 2)
    note("a link as fast as memory", over_link(1e12), 3, num_rows, 2)
    return rows


def show(table: Sequence[dict[str, object]]) -> None:
    """Print a table of its own columns."""
    print(" | ".join(table[0]))
    for row in table:
        print(" | ".join(_cell(value) for value in row.values()))


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return f"{value['ratio']} ({value['low']} to {value['high']})"
    return str(value)


def verdict(overlap: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return the targets and whether each is met."""
    ahead = [row for row in overlap if str(row["arm"]).startswith("prefetched")]
    lazy = [row["gain_over_serial"] for row in overlap if row["arm"] == "lazy_host_sync"]
    errors = [row["measured_over_closed_form"] for row in ahead]
    worst = max(abs(float(each["ratio"]) - 1) for each in errors if isinstance(each, dict))
    lazy_gain = max(float(each["ratio"]) - 1 for each in lazy if isinstance(each, dict))  # a loss is no gain
    return {
        "prefetched_within": MAX_ERROR,
        "worst_prefetched_error": round(worst, 4),
        "lazy_with_host_sync_gain_at_most": MAX_LAZY_GAIN,
        "largest_lazy_with_host_sync": round(lazy_gain, 4),
        "is_met": worst <= MAX_ERROR and lazy_gain <= MAX_LAZY_GAIN,
    }


def main() -> int:
    """Run the tables; exit 1 if a target is missed (a smoke test judges nothing)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: small, and nothing is written")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(child(args.child[0], args.child[1], int(args.child[2]), int(args.child[3])))
        return 0
    torch.set_num_threads(1)
    started_s, load = time.monotonic(), os.getloadavg()[0]
    ratios, positions, num_turns = ((0.5,), 64, 2) if args.quick else (RATIOS, 160, 9)
    with machine_lock(lambda pid, s: None):
        overlap = [row for ratio in ratios for row in overlap_rows(ratio, positions, num_turns)]
        whole = whole_step_rows(*((4, QUICK_ROWS, 2) if args.quick else (12, STEP_ROWS, 4)))
        off = switched_off_rows(QUICK_ROWS)
    for table in (overlap, whole, off):
        show(table)
        print()
    result = {
        "what": "reload of checkpointed activations: overlap against its closed form, a whole step over a file",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load_at_start": load},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "threads": {"compute": 1, "copier": 1},
        "targets": verdict(overlap),
        "overlap": overlap,
        "whole_step": whole,
        "switched_off": off,
        "wall_s": round(time.monotonic() - started_s),
    }
    print(json.dumps(result["targets"]))
    if not args.quick:
        replace(HERE / "results" / "reload.json", json.dumps(result, indent=2) + "\n")
    return 0 if args.quick or verdict(overlap)["is_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
