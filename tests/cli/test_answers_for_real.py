"""The commands on whole inputs, nothing replaced: nothing is sent, no secret leaves, equal inputs get equal answers."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from steptune.cli.main import main

FIXTURES = Path(__file__).parents[1] / "pasted" / "fixtures"
KEY = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
SCRIPT = f"""
export WANDB_API_KEY={KEY}
export HF_TOKEN="{TOKEN}"
python3 -m verl.trainer.main_ppo \\
    data.train_batch_size=256 \\
    actor_rollout_ref.rollout.n=5 \\
    ++trainer.wandb_api_key={KEY} \\
    trainer.proxy=http://me:{KEY}@proxy.example:8080 $@
"""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any socket ends the test: nothing a user hands in may leave the machine."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def calls(log: str) -> list[list[str]]:
    return [
        ["diagnose", log],
        ["diagnose", log, "--json", "--html", "page.html"],
        ["diagnose", log, "--only", "memory"],
        ["lint", log],
        ["compare", log, str(FIXTURES / "V37b.txt")],
        ["compare", log, str(FIXTURES / "V37b.txt"), "--json", "--html", "page.html"],
    ]


@pytest.mark.parametrize("post", ["V10", "V37a", "N08", "N01", "A01"])
def test_every_command_answers_a_real_post_without_a_socket(post: str, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in calls(str(FIXTURES / f"{post}.txt")):
        assert main(argv) in (0, 3), argv
        said = capsys.readouterr()
        assert said.out
        assert said.err == ""


def test_no_secret_of_a_script_reaches_any_output(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.sh").write_text(SCRIPT)
    for argv in calls("run.sh"):
        main(argv)
        outputs = capsys.readouterr().out + (Path("page.html").read_text() if Path("page.html").exists() else "")
        assert KEY not in outputs
        assert TOKEN not in outputs


def test_the_same_input_gives_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(FIXTURES / "V37a.txt", "a.txt")
    for argv in (["diagnose", "a.txt"], ["diagnose", "a.txt", "--json"]):
        main(argv)
        first = capsys.readouterr().out
        main(argv)
        assert capsys.readouterr().out == first


def test_a_post_without_anything_claims_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hello.txt").write_text("my training is slow, any ideas?\n")
    assert main(["diagnose", "hello.txt", "--json"]) == 1
    said = capsys.readouterr()
    assert "nothing in the input was recognised" in said.err
    held = json.loads(said.out)
    assert held["paste"]["framework"] is None
    assert (held["phases"], held["bottlenecks"]) == ([], [])
    assert {finding["kind"] for finding in held["findings"]} <= {"no_claim"}


@pytest.mark.parametrize("content", [b"", b"Epoch 1 loss=0.53 acc=0.81\n"])
def test_a_file_without_anything_known_is_no_clean_bill(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    Path("input.dat").write_bytes(content)
    assert [main([command, "input.dat"]) for command in ("diagnose", "lint")] == [1, 1]
    told = capsys.readouterr().err
    assert told.count("nothing in the input was recognised") == 2
    assert told.count("1 line without" if content else "an empty input") == 2
    assert "of verl, nemo_rl, trl," in told


def test_an_answer_needs_neither_torch_nor_numpy() -> None:
    log = str(FIXTURES / "V10.txt")
    code = f"import sys; from steptune.cli.main import main; main(['diagnose', {log!r}]); print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    loaded = {name.split(".")[0] for name in ran.stdout.splitlines()[-1].split()}
    assert loaded.isdisjoint({"torch", "numpy", "tensorboard", "requests", "http"})
