"""One update with the trainer's layers compiled, against the same update as it stands.

`python bench/compile.py [--quick]` writes `bench/results/compile.json`; a full run takes under four minutes. Models are
those of the examples (dense, experts, hybrid) and SmolLM2-135M's shape, with random weights, packed, in float32. Both
arms are one trainer, switched by its knob, on the same rows in turn; weights stay (`probe_batch.STILL_LR`), the first
turn is dropped. `compile_s` is what the first start pays, with an empty cache folder; `pays_after_updates` is how many
updates of the measured gain make up for it, None where there is no gain. Surprise: every turn brings rows of other
lengths, so `compiled_later` would show a compiler that makes a graph for every length; it has to be 0.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "vs_trl"))

import same_work  # noqa: E402
import torch  # noqa: E402

from steptune import __version__  # noqa: E402
from steptune.core.job import JobSpec  # noqa: E402
from steptune.core.phase import Role  # noqa: E402
from steptune.engine.compiler import CACHE_VARIABLE  # noqa: E402
from steptune.engine.events import Recorder  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.new_model import new_model  # noqa: E402
from steptune.engine.probe_batch import Picked, batch_of, probe_algorithm  # noqa: E402
from steptune.engine.threads import torch_threads  # noqa: E402
from steptune.engine.trainer import Trainer  # noqa: E402
from steptune.engine.types import ScoredBatch  # noqa: E402
from steptune.envs.vocabulary import vocabulary_of  # noqa: E402
from steptune.stats.intervals import mean_interval  # noqa: E402
from steptune.stats.ratio import ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.job_file import load_job  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

ARMS = {False: "as it stands", True: "compiled"}
"""Names of the arms by the value of `compile`."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One model and its rows: ``Case(name="math-dense", job=job, num_turns=16)``."""

    name: str
    job: JobSpec
    num_turns: int


@dataclass(kw_only=True)
class Times:
    """What one arm took."""

    update_s: list[float] = field(default_factory=list[float])
    num_compiled: int = 0
    """Graphs compiled in its updates."""


def cases(is_quick: bool) -> list[Case]:
    """Return what is measured."""
    turns = {"math-dense": 1} if is_quick else {"math-dense": 16, "math-moe": 10, "math-hybrid": 10}
    examples = [
        Case(name=name, job=load_job(HERE.parent / "examples" / f"{name}.toml"), num_turns=num_turns)
        for name, num_turns in turns.items()
    ]
    large = Case(name="SmolLM2's shape, 135 M", job=same_work.job("smollm2"), num_turns=5)
    return examples if is_quick else [*examples, large]


def batches(case: Case) -> list[ScoredBatch]:
    """Return a step's rows for every turn, of other lengths each time."""
    algorithm = case.job.algorithm
    lengths = same_work.forced_lengths(case.job, max(2, algorithm.max_completion_len // 3))
    rows = list(zip(lengths.prompt, lengths.completion, strict=True))
    size, vocabulary = algorithm.rollouts_per_step, vocabulary_of(case.job)
    starts = [(turn * size) % (len(rows) - size + 1) for turn in range(case.num_turns + 1)]
    steps = [rows[start : start + size] for start in starts]
    return [batch_of(Picked(rows=step, group_B=list(range(size))), vocabulary.size) for step in steps]


def measure(case: Case) -> dict[str, object]:
    """Run both arms in turn and return the row of the table."""
    trainer = Trainer(new_model(case.job), probe_algorithm(case.job), EngineKnobs(), vocabulary_of(case.job).pad_id)
    times = {is_compiled: Times() for is_compiled in ARMS}
    for turn, batch in enumerate(batches(case)):
        for is_compiled in ARMS if turn % 2 == 0 else reversed(ARMS):
            trainer.configure(EngineKnobs(layout="packed", micro_batch_tokens=4096, compile=is_compiled))
            seconds, num_compiled = update(trainer, batch)
            if turn > 0:
                times[is_compiled].update_s.append(seconds)
                times[is_compiled].num_compiled += num_compiled
    return row(case, trainer.gradients.warm_up_s, times)


def update(trainer: Trainer, batch: ScoredBatch) -> tuple[float, int]:
    """Train once; return the seconds of the update, optimizer included, and the graphs compiled in it."""
    recorder = Recorder()
    with torch_threads(trainer.knobs.train_threads):
        prepared = trainer.prepare(batch, recorder)
        with recorder.span(Role.TRAINER, "train"):
            stats = trainer.update(prepared, weights_version=0, recorder=recorder)
    return sum(span.seconds for span in recorder.spans if span.phase == "train"), stats.num_compiled or 0


def row(case: Case, compile_s: float, times: dict[bool, Times]) -> dict[str, object]:
    """Return one model's result."""
    plain, compiled = times[False].update_s, times[True].update_s
    means = {ARMS[name]: mean_interval(arm.update_s) for name, arm in times.items()} if len(plain) > 1 else {}
    gain = ratio_interval(plain, compiled) if len(plain) > 1 else None
    saved_s = (sum(plain) - sum(compiled)) / len(plain)
    return {
        "model": case.name,
        "update_s": {name: {"mean": m.value, "low": m.low, "high": m.high} for name, m in means.items()},
        "times_as_fast": None if gain is None else {"value": gain.value, "low": gain.low, "high": gain.high},
        "n": len(plain),
        "compile_s": round(compile_s, 1),
        "pays_after_updates": round(compile_s / saved_s) if saved_s > 0 else None,
        "compiled_later": times[True].num_compiled,
    }


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn of the example, nothing written")
    is_quick = parser.parse_args().quick
    load, start_s = os.getloadavg()[0], time.monotonic()
    with (
        tempfile.TemporaryDirectory() as cache,
        machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None),
    ):
        os.environ[CACHE_VARIABLE] = cache
        models = [measure(case) for case in cases(is_quick)]
    result = {
        "what": "one optimizer update of a step's rows, layers compiled against as they stand, two threads",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"steptune": __version__, "python": platform.python_version(), "torch": torch.__version__},
        "took_s": round(time.monotonic() - start_s),
        "models": models,
    }
    print(json.dumps(result, indent=2))
    if not is_quick:
        replace(HERE / "results" / "compile.json", json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
