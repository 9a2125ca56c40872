"""Packs a tuned run of the embedded engine and replicates it from the pack alone, in another folder.

`python bench/replicate.py RUN --folder F`; RUN is for example `calm/chaos-...` under the folder of
`bench/chaos.py --half embedded --folder ...`. It prints both results side by side and writes
`bench/results/replicate.json` (not with `--quick`). Three launches of both arms of that job take about a minute.
The surprise: the copy in F is all that the second half may read; RUN is out of its sight, a cache of its own included,
so that the SFT start is trained again.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from steptune.core.replicated import Replicated
from steptune.store.files import replace
from steptune.store.pack import read_pack

RESULT = Path(__file__).parent / "results" / "replicate.json"


def steptune(folder: Path, *words: str) -> str:
    """Run the command line in ``folder`` with a cache of its own and return what it printed.

    Raises:
        CalledProcessError: it failed.
    """
    paths = os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path)
    places = {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "steptune.cli.main", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, **places},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def replicated(run: Path, folder: Path) -> dict[str, object]:
    """Pack ``run``, replicate the pack in ``folder`` and return both results."""
    folder.mkdir(parents=True)
    pack = folder / "session.pack"
    print(steptune(folder, "report", str(run.resolve()), "--pack", str(pack.resolve())), end="")
    print(steptune(folder, "report", "--replicate", str(pack.resolve()), "--runs", "again"), end="")
    (found,) = (folder / "again").glob("*/replicated.json")
    told = Replicated.model_validate_json(found.read_bytes())
    held = read_pack(pack)
    return {
        "pack": {"lines": held.header.num_lines, "bytes": pack.stat().st_size, "redacted": held.header.num_redacted},
        "is_same_code": told.is_same_code,
        "there": told.there.model_dump(mode="json"),
        "here": told.here.model_dump(mode="json"),
        "verdict": told.verdict,
    }


def main() -> int:
    """Do it and write down what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder of a session that adopted a change")
    parser.add_argument("--folder", type=Path, required=True, help="made by this script: pack, cache and runs")
    parser.add_argument("--quick", action="store_true", help="nothing is written to bench/results")
    given = parser.parse_args()
    result = replicated(given.run, given.folder)
    if not given.quick:
        replace(RESULT, json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
