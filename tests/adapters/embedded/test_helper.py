"""A helper carries out order after order in one process, and one that dies is replaced by the next order."""

import os
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.helper import Helper
from steptune.core.errors import TrialError
from steptune.core.framework import SideReplay
from steptune.core.job import JobSpec
from steptune.core.phase import Role
from steptune.engine.offline import USER_ERROR
from steptune.engine.orders import SideOrder


def bad_order(folder: Path) -> SideOrder:
    """An order that needs no model: nothing was captured."""
    torch.save({}, folder / "start.pt")
    wanted = SideReplay(
        side=Role.TRAINER,
        incumbent={},
        candidate={},
        batches_dir=str(folder / "none"),
        looks=(3,),
        line=1.0,
        spread=None,
        max_s=1.0,
    )
    return SideOrder(
        job=JobSpec(name="side"),
        wanted=wanted,
        start_path=str(folder / "start.pt"),
        folder=str(folder),
        out_path=str(folder / "out.json"),
    )


def test_orders_share_a_process_an_error_leaves_it_up_and_a_death_costs_one_order(tmp_path: Path) -> None:
    order, helper = bad_order(tmp_path), Helper("mark", tmp_path / "helper.txt", tmp_path)
    try:
        assert not helper.is_up
        exit_code, said = helper.carry_out(order, 60)
        assert exit_code == USER_ERROR
        assert said.startswith("TrialError: ")
        process = helper._process
        assert process is not None
        assert helper.carry_out(order, 60)[0] == USER_ERROR
        assert helper._process is process
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            helper.carry_out(order, 0.0)
        assert process.returncode == -signal.SIGKILL
        assert not helper.is_up
        assert helper.carry_out(order, 60)[0] == USER_ERROR
    finally:
        helper.close()
    assert not helper.is_up


def test_an_order_whose_helper_is_killed_is_carried_out_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, told = [(-signal.SIGKILL, ""), (0, ""), (-signal.SIGKILL, ""), (-signal.SIGKILL, "")], list[str]()
    monkeypatch.setattr(Helper, "carry_out", lambda *_: ends.pop(0))
    framework = EmbeddedFramework(cache_dir=tmp_path, say=told.append)
    with framework.helper():
        framework._help(bad_order(tmp_path), tmp_path)
        with pytest.raises(TrialError, match="side failed with exit code -9"):
            framework._help(bad_order(tmp_path), tmp_path)
    assert ends == []
    assert told == ["`side`: the process that helps was killed from outside; once more"] * 2


def test_a_helper_that_dies_of_its_order_gives_its_exit_code_and_last_words(tmp_path: Path) -> None:
    order, helper = bad_order(tmp_path), Helper("mark", tmp_path / "helper.txt", tmp_path)
    Path(order.start_path).unlink()  # no error of ours: the process ends with a traceback
    exit_code, said = helper.carry_out(order, 60)
    assert exit_code == 1
    assert "FileNotFoundError" in said.splitlines()[-1]
    assert not helper.is_up


@pytest.mark.parametrize("is_helped", [True, False])
def test_an_order_whose_time_is_up_is_stopped_and_later_ones_have_theirs_again(is_helped: bool, tmp_path: Path) -> None:
    framework = EmbeddedFramework(cache_dir=tmp_path)
    said = "`side` was stopped, it takes too long, got no end; allowed: 0 s; hint: "
    helped = framework.helper() if is_helped else nullcontext()
    with helped, framework.orders_within(0.0), pytest.raises(TrialError, match=said):
        framework._help(bad_order(tmp_path), tmp_path)
    assert framework._patience_s() > 1000
