"""`steptune serve`: a folder that `train` wrote answers completions over the loopback address."""

import json
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from steptune.cli import serve_command
from steptune.cli.main import main

pytest.importorskip("torch", reason="the embedded engine is not installed")
pytest.importorskip("tokenizers", reason="the package `tokenizers` is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "engine" / "hf"))
from tiny_folders import tiny_folder

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "model")


def test_a_folder_answers_text_with_ids_and_log_probs_until_it_is_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answers = list[Any]()

    def ask() -> None:
        url = capsys.readouterr().out.strip()
        body = json.dumps({"prompt": ["1+1?", "2+3?"], "max_tokens": 3, "logprobs": 0, "seed": 4}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=20) as answer:
            answers.append(json.load(answer))

    monkeypatch.setattr(serve_command, "wait", ask)
    assert main(["serve", str(folder), "--port", "0"]) == 0
    (answer,) = answers
    assert answer["model"] == "model"
    assert len(answer["choices"]) == 2
    first = answer["choices"][0]
    assert first["prompt_token_ids"][0] == 1, "the tokenizer's own start of a text"
    assert len(first["prompt_token_ids"]) == 1 + len("1+1?")
    assert len(first["token_ids"]) == len(first["logprobs"]["token_logprobs"])


def test_a_port_that_is_taken_or_is_none_is_said(folder: Path, capsys: Captured) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", str(folder), "--port", str(port)]) == 1
    assert f"port {port} cannot be listened on, got Address already in use; allowed" in capsys.readouterr().err
    assert main(["serve", str(folder), "--port", "70000"]) == 2
    assert "`--port` is no port, got 70000; allowed: 0 to 65535" in capsys.readouterr().err


def test_a_folder_that_is_no_model_is_said(tmp_path: Path, capsys: Captured) -> None:
    assert main(["serve", str(tmp_path)]) == 1
    assert "config.json` cannot be read" in capsys.readouterr().err
