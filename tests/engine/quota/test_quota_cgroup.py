"""Control groups, on folders that look like them."""

from pathlib import Path

import pytest

from steptune.engine.quota.cgroup import PROCS, CgroupQuota, Place, find_place, limit_files, sweep

PID = 2**22 + 5
"""Above the kernel's largest process id: nobody's."""


def v1(root: Path) -> str:
    return (
        f"tmpfs {root} tmpfs rw 0 0\ncgroup {root}/memory cgroup rw,memory 0 0\ncgroup {root}/cpu cgroup rw,cpu 0 0\n"
    )


def v2(root: Path) -> str:
    return f"cgroup2 {root} cgroup2 rw,nsdelegate 0 0\n"


def test_version_1_is_found_at_the_process_own_group(tmp_path: Path) -> None:
    (tmp_path / "cpu" / "job").mkdir(parents=True)
    place = find_place(1, mounts=v1(tmp_path), memberships="8:memory:/other\n1:cpu:/job\n0::/\n")
    assert place == Place(base=tmp_path / "cpu" / "job", home=tmp_path / "cpu" / "job")


def test_version_2_is_found_where_the_controller_is_delegated(tmp_path: Path) -> None:
    (tmp_path / "user" / "job").mkdir(parents=True)
    memberships = "0::/user/job\n"
    assert find_place(2, mounts=v2(tmp_path), memberships=memberships) is None
    (tmp_path / "user" / "cgroup.subtree_control").write_text("cpu memory\n")
    # the group itself holds processes, so its own cannot be below it: they stand beside it
    assert find_place(2, mounts=v2(tmp_path), memberships=memberships) == Place(
        base=tmp_path / "user", home=tmp_path / "user" / "job"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_machine_without_groups_has_no_place(version: int) -> None:
    assert find_place(version, mounts="tmpfs /tmp tmpfs rw 0 0\n", memberships="1:cpu:/\n0::/\n") is None  # type: ignore[arg-type]


def test_a_process_born_in_a_limited_group_gets_its_own_outside_of_it(tmp_path: Path) -> None:
    (tmp_path / "cpu" / "steptune-77").mkdir(parents=True)
    place = find_place(1, mounts=v1(tmp_path), memberships="1:cpu:/steptune-77\n")
    assert place == Place(base=tmp_path / "cpu", home=tmp_path / "cpu")


def fake_group(base: Path) -> Path:
    """The kernel makes these files itself."""
    folder = base / f"steptune-{PID}"
    folder.mkdir()
    for name in ("cpu.cfs_period_us", "cpu.cfs_quota_us", "cgroup.procs"):
        (folder / name).touch()
    (base / "cgroup.procs").touch()
    return folder


def test_a_quota_sets_the_limit_moves_in_and_moves_back(tmp_path: Path) -> None:
    base = tmp_path
    quota = _quota_in(base)
    folder = base / f"steptune-{PID}"
    assert {f.name: f.read_text() for f in folder.iterdir()} == {
        **limit_files(1, 0.75),
        "cgroup.procs": str(PID),
    }
    quota.release()
    assert (base / "cgroup.procs").read_text() == str(PID)


def _quota_in(base: Path) -> CgroupQuota:
    fake_group(base)
    return CgroupQuota(1, Place(base=base, home=base), pid=PID, cores=0.75)


def test_without_rights_nothing_is_left_behind(tmp_path: Path) -> None:
    # a plain folder has no cpu.max: the kernel would have made it
    with pytest.raises(FileNotFoundError):
        CgroupQuota(2, Place(base=tmp_path, home=tmp_path), pid=PID, cores=0.75)
    assert list(tmp_path.iterdir()) == []


def test_groups_of_dead_processes_are_swept_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    for name in (f"steptune-{PID}", "steptune-1", "other"):
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "steptune-1"]


def test_a_group_that_may_not_be_entered_is_removed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, _text: str) -> None:
        if path.name == PROCS:
            raise PermissionError(path)

    monkeypatch.setattr("steptune.engine.quota.cgroup._write", refuse)
    with pytest.raises(PermissionError):
        CgroupQuota(2, Place(base=tmp_path, home=tmp_path), pid=1, cores=0.5)
    assert not list(tmp_path.iterdir())
