"""How fast are logs read, and in how much memory? Generated logs, read in a process of their own.

`python bench/reader_speed.py` prints a table; `--write` saves it as `bench/results/reader_speed.json`. The mix is that
of a verl job on 16 workers: nine lines in ten are engine statistics, requests and warnings that repeat with other
numbers, then progress bars that overwrite themselves, one step line of 6 kB in every 400 lines, and a traceback. The
other frameworks' steps stand among the same lines (mixed) and alone (dense: what a grep for steps leaves).
Targets: at least 40 MB/s on mixed logs, a 2 GB log in under 300 MB, a normal log of 5 MB in under a second with the
start of Python in it. The exit code is 1 where one is missed, and `missed` says which. MB/s is by the clock; by the
seconds of the processor (`mb_per_cpu_s`) other processes disturb it less.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from reader_formats import FORMATS
from steptune.store.files import replace

HERE = Path(__file__).parent
MIN_MB_PER_S, MAX_PEAK_MB, MAX_NORMAL_S = 40.0, 300.0, 1.0
NORMAL_MB, MIXED_MB, BIG_MB = 5, 200, 2048
FORMAT_MIXED_MB, FORMAT_DENSE_MB = 60, 6
LINES_PER_STEP = 400
LINES_PER_BLOCK = 20_000
"""Lines generated once and repeated with growing step numbers: writing must not take longer than reading."""

MB = 1_000_000
STEP_MARK = "STEPNUMBER"
_GROUPS = ("actor", "critic", "perf", "training", "response_length", "prompt_length", "timing_per_token_ms")
_CHILD = """
import resource, sys, time
started = time.perf_counter()
from pathlib import Path
from steptune.readers.read_paste import read_paste
imported, imported_cpu_s = time.perf_counter(), time.process_time()
paste = read_paste([Path(sys.argv[1])])
ended, cpu_s = time.perf_counter(), time.process_time() - imported_cpu_s
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
print(paste.framework, paste.num_steps_seen, paste.num_lines, imported - started, ended - imported, peak_mb,
      int("torch" in sys.modules), cpu_s)
"""


def step_line(rng: random.Random) -> str:
    """A step line of verl with 90 metrics."""
    keys = [f"{group}/metric_{n}" for group in _GROUPS for n in range(11)]
    timers = ("gen", "reward", "old_log_prob", "ref", "adv", "update_actor", "update_weights")
    pairs = [f"{key}:{rng.random()}" for key in keys] + [f"timing_s/{name}:{rng.random() * 9}" for name in timers]
    return f"(TaskRunner pid=777) step:{STEP_MARK} - " + " - ".join(
        [*pairs, "timing_s/step:71.5", "perf/throughput:812.3"]
    )


def other_line(rng: random.Random, number: int) -> str:
    """A line of the kinds that fill a log."""
    worker = f"\x1b[36m(WorkerDict pid={1000 + number % 16})\x1b[0m"
    kinds = (
        f"{worker} INFO 09-15 14:29:{number % 60:02d} [loggers.py:118] Engine 000: Avg prompt throughput: "
        f"{rng.random() * 9000:.1f} tokens/s, Avg generation throughput: {rng.random() * 4000:.1f} tokens/s, Running: "
        f"{number % 256} reqs, Waiting: 0 reqs, GPU KV cache usage: {rng.random() * 100:.1f}%",
        f'{worker} INFO:     10.0.0.{number % 255}:{number % 65535} - "POST /v1/completions HTTP/1.1" 200 OK',
        f"{worker} [2025-09-15 14:29:{number % 60:02d}] rank {number % 16} micro batch {number % 64} "
        f"done in {rng.random():.3f} s",
        f"(AgentLoopWorker pid=99) tool call {rng.getrandbits(64):x} returned {rng.getrandbits(128):x}",
        f"{worker} /usr/lib/python3/site-packages/module.py:{number % 900}: UserWarning: slow path taken "
        "[repeated 15x across cluster]",
    )
    return kinds[-1 if number % 23 == 0 else number % (len(kinds) - 1)]


def block(rng: random.Random) -> str:
    """Some thousand lines with their step lines and progress bars."""
    lines: list[str] = []
    for number in range(LINES_PER_BLOCK):
        lines.append(other_line(rng, number))
        if number % LINES_PER_STEP == 0:
            lines.append(step_line(rng))
            lines.append(
                "\r".join(f"Training Progress: {n}%|##  | {n}/624 [10:00<10:53:21, 60.32s/it]" for n in range(5))
            )
    return "\n".join(lines) + "\n"


def write_log(path: Path, size: int) -> None:
    """Write at least ``size`` bytes."""
    rng = random.Random(7)
    parts = block(rng).split(STEP_MARK)
    step = 0
    with path.open("w", encoding="utf-8") as file:
        file.write("python3 -m verl.trainer.main_ppo data.train_batch_size=256 trainer.n_gpus_per_node=8\n")
        while file.tell() < size:
            for text in _numbered(parts, step):
                file.write(text)
            step += len(parts) - 1
        file.write('Traceback (most recent call last):\n  File "a.py", line 1, in update_actor\n')
        file.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB.\n")


def _numbered(parts: list[str], first: int) -> Iterator[str]:
    yield parts[0]
    for index, part in enumerate(parts[1:], start=first + 1):
        yield f"{index}{part}"


def write_format(path: Path, name: str, size: int, *, is_mixed: bool) -> None:
    """Write at least ``size`` bytes of one framework's steps, alone or `LINES_PER_STEP` lines apart."""
    rng = random.Random(7)
    others = [other_line(rng, number) for number in range(10 * LINES_PER_STEP)]
    step = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            step += 1
            file.write(FORMATS[name](rng, step) + "\n")
            if is_mixed:
                start = step % 10 * LINES_PER_STEP
                file.write("\n".join(others[start : start + LINES_PER_STEP]) + "\n")


def measure(path: Path) -> dict[str, object]:
    """Read ``path`` in a process of its own."""
    started_s = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True)
    wall_s = time.perf_counter() - started_s
    name, steps, lines, import_s, read_s, peak_mb, has_torch, cpu_s = done.stdout.split()
    size_mb = path.stat().st_size / MB
    return {
        "size_mb": round(size_mb, 1),
        "framework": name,
        "steps": int(steps),
        "lines": int(lines),
        "import_s": round(float(import_s), 3),
        "read_s": round(float(read_s), 3),
        "mb_per_s": round(size_mb / float(read_s), 1),
        "wall_s": round(wall_s, 3),
        "mb_per_cpu_s": round(size_mb / float(cpu_s), 1),
        "peak_mb": round(float(peak_mb), 1),
        "imports_torch": has_torch == "1",
    }


def main() -> int:
    """Measure all logs; exit 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixed-mb", type=int, default=MIXED_MB)
    parser.add_argument("--big-mb", type=int, default=BIG_MB, help="0 leaves the big log out")
    parser.add_argument("--format-mb", type=int, default=FORMAT_MIXED_MB, help="of the other frameworks' mixed logs")
    parser.add_argument("--write", action="store_true", help="save bench/results/reader_speed.json")
    asked = parser.parse_args()
    sizes = {"normal": NORMAL_MB, "mixed": asked.mixed_mb} | ({"big": asked.big_mb} if asked.big_mb else {})
    found: Rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, size_mb in sizes.items():
            path = Path(folder) / f"{name}.log"
            write_log(path, size_mb * MB)
            found[name] = measure(path)
            path.unlink()
        formats = _formats(Path(folder), asked.format_mb)
    missed = _missed(found, formats)
    result = {
        "what": "read_paste on generated logs, one process each: `logs` are verl's",
        "targets": {"mb_per_s": MIN_MB_PER_S, "peak_mb": MAX_PEAK_MB, "normal_wall_s": MAX_NORMAL_S},
        "is_met": not missed,
        "missed": missed,
        "logs": found,
        "formats": formats,
        "load_avg_at_end": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if asked.write:
        replace(HERE / "results" / "reader_speed.json", text + "\n")
    return 0 if result["is_met"] else 1


Rows = dict[str, dict[str, object]]


def _formats(folder: Path, mixed_mb: int) -> dict[str, Rows]:
    """Measure every other framework's mixed and dense log.

    Raises:
        SystemExit: a log was taken for another framework's.
    """
    found: dict[str, Rows] = {}
    for name in FORMATS:
        found[name] = {}
        for kind, size_mb in (("mixed", mixed_mb), ("dense", min(FORMAT_DENSE_MB, mixed_mb))):
            path = folder / f"{name}.log"
            write_format(path, name, size_mb * MB, is_mixed=kind == "mixed")
            found[name][kind] = measure(path)
            path.unlink()
            if found[name][kind]["framework"] != name:
                sys.exit(
                    f"{name}, {kind}: read as {found[name][kind]['framework']}; the generated step must be its own"
                )
    return found


def _missed(logs: Rows, formats: dict[str, Rows]) -> list[str]:
    """Return each target that is missed, with the number; dense logs have none but memory."""
    mixed = {f"verl {name}": row for name, row in logs.items() if name != "normal"}
    mixed |= {f"{name} mixed": rows["mixed"] for name, rows in formats.items()}
    every = mixed | {f"{name} dense": rows["dense"] for name, rows in formats.items()} | {"normal": logs["normal"]}
    slow = {name: row["mb_per_s"] for name, row in mixed.items() if float(str(row["mb_per_s"])) < MIN_MB_PER_S}
    large = {name: row["peak_mb"] for name, row in every.items() if float(str(row["peak_mb"])) >= MAX_PEAK_MB}
    missed = [f"{name}: {speed} MB/s" for name, speed in slow.items()]
    missed += [f"{name}: {peak} MB of memory" for name, peak in large.items()]
    missed += [f"{name}: imports torch" for name, row in every.items() if row["imports_torch"]]
    wall_s = float(str(logs["normal"]["wall_s"]))
    return [*missed, *([f"normal: {wall_s} s"] if wall_s >= MAX_NORMAL_S else [])]


if __name__ == "__main__":
    sys.exit(main())
