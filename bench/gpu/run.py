"""`bench/gpu_check.sh` in Python: checks, then ratios, then the file and the table.

`python bench/gpu/run.py [OUT.json] [--device cuda|cpu] [--tiny] [--budget-s 420]`. Exit 0: nothing failed, though
parts may have been dropped; 1: a check failed, or a file could not be written; 2: no such device. Progress goes to
stderr, the table to stdout. A CPU always takes the tiny sizes.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
# the script's own folder goes: its file names are those of other modules
sys.path[:] = [str(BENCH), str(BENCH.parent / "src"), *(p for p in sys.path if p != str(BENCH / "gpu"))]

import torch  # noqa: E402

from gpu.acceptance import problems  # noqa: E402
from gpu.checks import run_all  # noqa: E402
from gpu.contents import CHECKS  # noqa: E402
from gpu.ratios import measure  # noqa: E402
from gpu.record import SCHEMA_VERSION, Check, GpuResult  # noqa: E402
from gpu.show import shown  # noqa: E402
from gpu.site import Site, git_state, machine  # noqa: E402
from gpu.turns import Budget  # noqa: E402
from steptune.store.files import replace  # noqa: E402

BUDGET_S = 420.0
"""Seconds of the whole run, checks included: seven minutes of the eight that it may take, one is for the start."""


def main(arguments: Sequence[str]) -> int:
    """Run it all."""
    options = _options(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no CUDA device; hint: `--device cpu` proves the script", file=sys.stderr)
        return 2
    site = Site(device=_device(options.device), is_tiny=options.tiny or options.device == "cpu")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")  # a norm under autocast
        found = run(site, options.budget_s)
    print(shown(found))
    if options.out is not None:
        replace(options.out, found.model_dump_json(indent=1) + "\n")
        _say(f"wrote {options.out}")
    for problem in problems(found):
        _say(f"not for bench/results/gpu: {problem}")
    return 1 if any(check.outcome == "fail" for check in found.checks) else 0


def run(site: Site, budget_s: float) -> GpuResult:
    """Return checks and ratios of one site."""
    budget, date = Budget(total_s=budget_s), datetime.now(UTC).replace(microsecond=0)
    commit, is_clean = git_state()
    checks = list[Check]()
    for check in run_all(site):
        checks.append(check)
        _say(f"check {len(checks)} of {len(CHECKS)}: {check.outcome} {check.name}")
    measured = measure(site, checks, budget, _say)
    return GpuResult(
        schema_version=SCHEMA_VERSION,
        date=date,
        machine=machine(site.device),
        git_commit=commit,
        is_tree_clean=is_clean,
        is_tiny=site.is_tiny,
        budget_s=budget_s,
        took_s=budget.took_s,
        checks=tuple(checks),
        ceilings=measured.ceilings,
        tables=tuple(measured.tables),
        distances=tuple(measured.distances),
        dropped=tuple(measured.dropped),
    )


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Checks every CUDA path of the engine, then measures its levers.")
    parser.add_argument("out", nargs="?", type=Path, help="where the result goes; nothing is written without it")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that only prove the script")
    parser.add_argument("--budget-s", type=float, default=BUDGET_S, help="seconds after which parts are dropped")
    return parser.parse_args(arguments)


def _device(kind: str) -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if kind == "cuda" else torch.device("cpu")


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
