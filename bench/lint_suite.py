"""Runs the linter over the configurations that the frameworks themselves ship.

A rule that fires on a shipped example is a false alarm or a find; each has to be explained
(`bench/lint_explained.toml`), and the table is committed with the commits it was made from.

    python bench/lint_suite.py --out bench/results/lint.json nemo_rl=/snapshots/nemo_rl@7ea279a verl=/snapshots/verl@1dd

A snapshot is a plain folder (``git archive``); nothing is downloaded here.
"""

import argparse
import json
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steptune.core.finding import Finding, Severity
from steptune.core.paste import Paste
from steptune.lint.check import lint
from steptune.readers.config.files import read_config_path
from steptune.readers.read_paste import read_paste

PATTERNS = {
    "nemo_rl": ("examples/configs/**/*.yaml", "examples/nemo_gym/**/*.yaml", "examples/modelopt/**/*.yaml"),
    "verl": ("examples/**/*.sh",),
    "trl": ("examples/**/*.yaml", "examples/scripts/**/*.py", "trl/accelerate_configs/*.yaml"),
    "prime_rl": ("examples/**/*.toml", "configs/**/*.toml"),
    "slime": ("scripts/*.sh", "examples/**/*.sh"),
    "skyrl": ("examples/**/*.sh",),
    "openrlhf": ("examples/scripts/*.sh",),
    "areal": ("examples/**/*.yaml",),
}
"""Where each repository keeps configurations that are meant to run as they are."""

EXPLAINED = Path(__file__).parent / "lint_explained.toml"
"""Findings of weight on shipped files, each with the reason why it is right or why it is accepted."""


@dataclass(frozen=True)
class Snapshot:
    """One repository at one commit: ``verl=/snapshots/verl@1dda039``."""

    framework: str
    folder: Path
    commit: str

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        """Read ``framework=folder@commit``."""
        framework, _, rest = text.partition("=")
        folder, _, commit = rest.rpartition("@")
        if framework not in PATTERNS or not folder:
            raise argparse.ArgumentTypeError(
                f"{text}: want framework=folder@commit, framework of {', '.join(PATTERNS)}"
            )
        return cls(framework=framework, folder=Path(folder), commit=commit)

    def files(self) -> list[Path]:
        """Return every configuration file, sorted."""
        return sorted({path for pattern in PATTERNS[self.framework] for path in self.folder.glob(pattern)})


def read(snapshot: Snapshot, path: Path) -> tuple[Paste, bool]:
    """Return one configuration with its parents, and whether it tells by itself which framework it is for."""
    settings = read_config_path(path).settings
    paste = Paste(paths=(str(path),), framework=snapshot.framework, settings=settings)
    return paste, read_paste([path]).framework == snapshot.framework


def run(snapshot: Snapshot, explained: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Lint one repository's files and return its part of the table."""
    readings = [read(snapshot, path) for path in snapshot.files()]
    pastes = [paste for paste, _ in readings]
    found = [(Path(p.paths[0]).relative_to(snapshot.folder), finding) for p in pastes for finding in lint(p)]
    heavy = [row(str(path), finding, explained) for path, finding in found if finding.severity is not Severity.INFO]
    infos = Counter(finding.code for _, finding in found if finding.severity is Severity.INFO)
    return {
        "commit": snapshot.commit,
        "files": len(pastes),
        "files_detected": sum(is_detected for _, is_detected in readings),
        "files_with_settings": sum(bool(paste.settings) for paste in pastes),
        "settings": sum(len(paste.settings) for paste in pastes),
        "findings": heavy,
        "unexplained": sum(not line["explained"] for line in heavy),
        "infos": dict(sorted(infos.items())),
    }


def row(path: str, finding: Finding, explained: dict[tuple[str, str], str]) -> dict[str, str]:
    """Return one finding of weight as a line of the table."""
    return {
        "file": path,
        "code": finding.code,
        "severity": finding.severity.value,
        "title": finding.title,
        "evidence": "; ".join(fact.text for fact in finding.evidence[:-1]),
        "explained": explained.get((finding.code, path)) or explained.get((finding.code, "*")) or "",
    }


def load_explained() -> dict[tuple[str, str], str]:
    """Return reason by code and file (``*`` for all files)."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("explained", [])
    return {(entry["code"], file): entry["reason"] for entry in entries for file in entry["files"]}


def main() -> None:
    """Run the suite and print its table."""
    parser = argparse.ArgumentParser(description="Lint the configurations that frameworks ship")
    parser.add_argument("snapshots", nargs="+", type=Snapshot.parse, metavar="FRAMEWORK=FOLDER@COMMIT")
    parser.add_argument("--out", type=Path, help="where to write the table as JSON")
    arguments = parser.parse_args()
    explained = load_explained()
    table = {snapshot.framework: run(snapshot, explained) for snapshot in arguments.snapshots}
    for framework, result in table.items():
        read_in = f"{result['files']} files ({result['files_detected']} detected), {result['settings']} settings"
        found = f"{len(result['findings'])} findings, {result['unexplained']} unexplained"
        print(f"{framework}@{result['commit']}: {read_in}, {found}")
        for line in result["findings"]:
            print(f"  {line['severity']:7} {line['code']} {line['file']}: {line['title']}")
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
