"""The texts as a log holds them, through the real reader: frames above, colours and Ray's prefixes before."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from steptune.memory.advise import memory_findings
from steptune.readers.read_paste import read_paste

CASES: list[dict[str, Any]] = [
    case
    for case in tomllib.loads((Path(__file__).parent / "oom_texts.toml").read_text(encoding="utf-8"))["case"]
    if all(frame.startswith(("File", "ray::")) for frame in case["frames"][:1])
    and not case["text"].startswith("The model")
]
PREFIXES = {
    "plain": "",
    "ray": "\x1b[36m(WorkerDict pid=118847, ip=10.1.2.3)\x1b[0m ",
    "rank": "[rank0]: ",
    "default": "[default3]:",
    "vllm": "ERROR 10-25 13:08:43 [core.py:708] ",
    "vllm before 0.8": "ERROR 10-25 13:08:43 engine.py:366] ",
    "critical": "CRITICAL 10-25 13:08:43 [launcher.py:116] ",
    "engine process": "(EngineCore_0 pid=1) ERROR 10-25 13:08:43 [core.py:708] ",
    "engine worker": "\x1b[36m(WorkerDict pid=7)\x1b[0m (VllmWorker TP0 pid=1) ERROR 10-25 13:08:43 [core.py:708] ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES.keys())
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["source"].split(".com/")[1])
def test_a_text_in_a_log_names_its_phase(case: dict[str, Any], prefix: str, tmp_path: Path) -> None:
    frames = [f"  {frame}" if frame.startswith("File") else f"    {frame}" for frame in case["frames"]]
    rows = ["Training starts", "Traceback (most recent call last):", *frames, *case["text"].splitlines(), "exit"]
    log = tmp_path / "run.log"
    log.write_text("".join(f"{prefix}{row}\n" for row in rows), encoding="utf-8")
    (finding,) = memory_findings(read_paste([log]))
    assert finding.code == f"oom/{case['phase']}"
    assert finding.evidence[0].origin is not None
    assert finding.evidence[0].origin.line > 2
