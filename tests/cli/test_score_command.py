import json
from pathlib import Path

import pytest

from steptune.cli.main import main


def test_the_public_scoreboard_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "board.svg"
    assert main(["score", "--public", "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert "structural ratio" in printed
    assert "does it fit?" in printed
    assert plot.read_text(encoding="utf-8").startswith("<svg")


def test_json_holds_the_same_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--public", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["own"] is None
    assert scores["public"]["num_groups"].keys() == {"fit", "test"}


@pytest.mark.parametrize("argv", [[], ["--plot", "x.svg", "some-run"]])
def test_nothing_to_score_is_a_wrong_call(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", *argv]) == 2
    assert "--public" in capsys.readouterr().err


def test_a_missing_run_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(tmp_path / "gone")]) == 1
    assert "is no run folder" in capsys.readouterr().err


def test_forecasts_of_a_finished_run_are_scored(tuned_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(tuned_run)]) == 0
    printed = capsys.readouterr().out
    assert "first forecasts" in printed
    assert "no change" in printed
    assert "A/A noise" in printed


def test_a_folder_named_twice_counts_once(tuned_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(tuned_run), str(tuned_run)]) == 0
    assert "1 run folder\n" in capsys.readouterr().out
