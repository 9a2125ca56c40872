"""`diagnose`, `lint` and `compare` from the command line: outputs, exit codes, standard input, nothing sent."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from steptune.cli import compare_command, diagnose_command, lint_command
from steptune.cli.answer import ordered
from steptune.cli.main import main
from steptune.core.comparison import Comparison, SpeedVerdict
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Diagnosis, Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Paste
from steptune.core.profile import Origin


def finding(code: str, kind: FindingKind, severity: Severity, share: float | None = None) -> Finding:
    part = None if share is None else Estimate(value=share, unit="frac", source=Source.DERIVED)
    return Finding(code=code, kind=kind, severity=severity, title=f"about {code}", share=part)


OOM = finding("oom/logits", FindingKind.MEMORY, Severity.FAULT)
LINT = finding("lint/any/x", FindingKind.LINT, Severity.WARNING)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Commands answer with an out-of-memory fault and a lint warning; returns the paths they were given."""
    seen: list[Path] = []

    def answer(paths: Sequence[Path]) -> Diagnosis:
        seen.extend(paths)
        origin = Origin(path=str(paths[0]), line=1, key="x")
        told = LINT.model_copy(update={"evidence": (Evidence(text="api_key=abcdefghijkl", origin=origin),)})
        return Diagnosis(paste=Paste(paths=tuple(map(str, paths)), framework="verl"), findings=(OOM, told))

    monkeypatch.setattr(diagnose_command, "answer", answer)
    monkeypatch.setattr(lint_command, "lint_only", lambda paths: answer(paths).model_copy(update={"findings": (LINT,)}))
    return seen


@pytest.fixture
def log() -> str:
    Path("run.log").write_text("step:1\n")
    return "run.log"


def test_a_fault_exits_with_three_and_a_warning_with_zero(
    said: list[Path], log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", log]) == 3
    assert "about oom/logits" in capsys.readouterr().out
    assert main(["lint", log]) == 0
    assert said == [Path(log), Path(log)]


def test_only_decides_what_is_shown_and_what_the_exit_code_means(
    said: list[Path], log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", log, "--only", "memory"]) == 3
    assert "lint/any/x" not in capsys.readouterr().out
    assert main(["diagnose", log, "--only", "lint"]) == 0
    assert "oom/logits" not in capsys.readouterr().out
    assert main(["diagnose", log, "--only", "health", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_json_is_the_record_with_the_version_of_its_shape(
    said: list[Path], log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diagnose", log, "--json"])
    held = json.loads(capsys.readouterr().out)
    assert held.pop("schema_version") == 1
    assert Diagnosis.model_validate(held).codes() == {"oom/logits", "lint/any/x"}


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_secrets_leave_neither_by_screen_nor_by_page(
    flags: list[str], said: list[Path], log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diagnose", log, "--html", "out.html", *flags])
    for text in (capsys.readouterr().out, Path("out.html").read_text()):
        assert "abcdefghijkl" not in text
        assert "[redacted]" in text


def test_standard_input_is_read_and_named_as_such(
    said: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"step:1 \xff\n")))
    assert main(["diagnose", "-"]) == 3
    text = capsys.readouterr().out
    assert text.startswith("steptune diagnose: stdin\n")
    assert "(stdin:1)" in text
    assert not said[0].exists(), "the copy of what was pasted is gone"


def test_pipes_are_copied_because_they_can_be_read_only_once(
    said: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    ends = [os.pipe(), os.pipe()]
    for _, write_end in ends:
        os.write(write_end, b"step:1\n")
        os.close(write_end)
    main(["diagnose", *(f"/dev/fd/{read_end}" for read_end, _ in ends)])
    for read_end, _ in ends:
        os.close(read_end)
    assert capsys.readouterr().out.startswith("steptune diagnose: pipe, pipe2\n")


def test_a_folder_stands_for_its_files_without_weights_and_hidden_ones(said: list[Path]) -> None:
    for name in ("job/b.log", "job/a.yaml", "job/.git/config", "job/actor/model.safetensors", "job/tokenizer.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x")
    main(["diagnose", "job"])
    assert said == [Path("job/a.yaml"), Path("job/b.log")]


@pytest.mark.parametrize(
    ("argv", "got"),
    [
        (["diagnose", "nowhere.log"], "got `nowhere.log`"),
        (["lint", "nowhere.sh"], "got `nowhere.sh`"),
        (["compare", "run.log", "nowhere.log"], "got `nowhere.log`"),
        (["diagnose", "empty"], "got `empty`"),
        (["diagnose", "run.log", "--html", "no/such/folder.html"], "cannot be written"),
    ],
)
def test_what_cannot_be_read_or_written_exits_with_one(
    argv: list[str], got: str, said: list[Path], log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    assert main(argv) == 1
    text = capsys.readouterr().err
    assert text.startswith("steptune: ")
    assert got in text
    assert "hint: " in text


@pytest.mark.parametrize("argv", [["diagnose", "-", "-"], ["compare", "-", "-"]])
def test_standard_input_named_twice_is_a_wrong_call(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "got 2 times `-`" in capsys.readouterr().err


def test_only_given_twice_shows_both_sorts(said: list[Path], log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", log, "--only", "lint", "--only", "memory"]) == 3
    told = capsys.readouterr().out
    assert "lint/any/x" in told
    assert "oom/logits" in told


@pytest.mark.parametrize("argv", [["diagnose"], ["lint"], ["compare", "a"], ["diagnose", "x", "--only", "speed"]])
def test_a_wrong_call_of_an_answer_exits_with_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(argv)
    assert leaving.value.code == 2
    assert "usage: steptune" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "code"), [(SpeedVerdict.FASTER, 0), (SpeedVerdict.NO_PROOF, 0), (SpeedVerdict.SLOWER, 3)]
)
def test_compare_exits_by_its_verdict(
    verdict: SpeedVerdict, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Sequence[Path]] = []

    def compare(a: Sequence[Path], b: Sequence[Path]) -> Comparison:
        given.extend((a, b))
        return Comparison(verdict=verdict, reason="said so")

    monkeypatch.setattr(compare_command, "comparison_and_unread", lambda a, b: (compare(a, b), {}))
    for name in ("a.log", "a.yaml", "b,1.log"):
        Path(name).write_text("x")
    assert main(["compare", "a.log,a.yaml", "b,1.log", "--html", "c.html"]) == code
    assert given == [[Path("a.log"), Path("a.yaml")], [Path("b,1.log")]]
    assert f"{verdict.upper()}: said so" in capsys.readouterr().out
    assert f"{verdict.upper()}: said so" in Path("c.html").read_text()


def test_faults_come_first_and_then_the_largest_share() -> None:
    small, large = (finding(f"s{s}", FindingKind.BOTTLENECK, Severity.WARNING, s) for s in (0.1, 0.8))
    assert ordered((LINT, small, large, OOM, LINT)) == (OOM, large, small, LINT)


def test_characters_a_terminal_cannot_show_are_no_crash(said: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("lög.txt").write_text("x")
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["diagnose", "lög.txt"]) == 3
    screen.seek(0)
    assert "l?g.txt" in screen.read()


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """As `steptune ... | head`: the pipe's other end is closed before anything is printed."""
    code = "import os, sys\nfrom steptune.cli.streams import print_plain\nos.read(0, 1)\nprint_plain('x' * 100000)\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    read_end, write_end = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=write_end,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
    ) as process:
        os.close(write_end)
        os.close(read_end)
        _, err = process.communicate(b"x")
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("empty", ["A", "B"])
def test_compare_exits_one_when_a_side_holds_nothing(
    empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, nothing = tmp_path / "run.log", tmp_path / "empty.log"
    log.write_text("step:1 - timing_s/gen:5.0 - timing_s/step:9.0 - actor/lr:1e-6\n")
    nothing.write_text("hello\n")
    names = [str(nothing), str(log)] if empty == "A" else [str(log), str(nothing)]
    assert main(["compare", *names]) == 1
    assert f"nothing in side {empty} was recognised" in capsys.readouterr().err
