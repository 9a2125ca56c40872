"""The whole script on a CPU: everything runs, agrees, and is marked as no result. The kernels are not proven here."""

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gpu import checks_attention, checks_offload, contents, ratios
from gpu.acceptance import problems, read
from gpu.checks import RUNNERS, run_check
from gpu.checks_layers import expect_wait
from gpu.compare import Finding, apart
from gpu.links import WithoutWaits
from gpu.models import timed_model
from gpu.record import Check, GpuResult
from gpu.run import main
from gpu.site import Site, UnavailableError, machine
from gpu.turns import Budget, OverBudgetError, Share, interleaved
from steptune.engine.offload.ops import Op, Point
from steptune.engine.offload.schedule import Schedule

BENCH = Path(__file__).parents[3] / "bench"
SITE = Site(device=torch.device("cpu"), is_tiny=True)
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], GpuResult]:
    """Run the script once, with the time for few parts."""
    out = tmp_path_factory.mktemp("gpu") / "out.json"
    environment = os.environ | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = ["bash", str(BENCH / "gpu_check.sh"), str(out), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    found, malformed = read(out.read_text())
    assert found is not None, (malformed, done.stderr)
    return done, found


def test_on_a_cpu_every_check_runs_and_nothing_fails(
    script: tuple[subprocess.CompletedProcess[str], GpuResult],
) -> None:
    done, found = script
    assert [check for check in found.checks if check.outcome == "fail"] == []
    assert done.returncode == 0, done.stderr
    skipped = {check.name for check in found.checks if check.outcome == "skip"}
    assert skipped == set(contents.NEEDS_CUDA)


def test_on_a_cpu_every_part_is_measured_and_no_ratio_is_left_out(
    script: tuple[subprocess.CompletedProcess[str], GpuResult],
) -> None:
    done, found = script
    assert found.dropped == ()
    assert {table.part for table in found.tables} == set(contents.PARTS) - {"ceilings"}
    assert {(d.family, d.what) for d in found.distances} == {
        (family, what) for family in contents.FAMILIES for what in ("training", "decoding")
    }
    shown = {f"{r.candidate} over {r.baseline}" for table in found.tables for r in table.ratios}
    assert all(line in done.stdout for line in shown)


def test_a_cpu_run_says_what_it_is_and_is_not_acceptable(
    script: tuple[subprocess.CompletedProcess[str], GpuResult],
) -> None:
    done, found = script
    assert "NOT A RESULT" in done.stdout
    assert done.stdout.count("ours not measured on a GPU") == 3
    assert "only the sign can be compared" in done.stdout
    said = problems(found)
    assert said[0].startswith("this is not a run on a GPU, got device_kind `cpu`")
    assert any(line.startswith("tiny sizes measure nothing") for line in said)


def test_without_a_cuda_device_the_script_says_so_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "out.json"
    assert main([str(out)]) == 2
    assert "sees no CUDA device" in capsys.readouterr().err
    assert not out.exists()


def test_without_torch_the_script_says_what_it_needs(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    environment = os.environ | {"PYTHON": str(fake)}
    command = ["bash", str(BENCH / "gpu_check.sh")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert done.returncode == 2
    assert "lacks torch, safetensors or pydantic" in done.stderr


class Cuda:
    """What the script asks of `torch.cuda`, answered from memory."""

    def __init__(self) -> None:
        self.mode, self.modes, self.now_ms = 0, list[object](), 0.0
        cuda = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing
                self.at_ms: float | None = None

            def record(self) -> None:
                self.at_ms = cuda.now_ms

            def synchronize(self) -> None:
                assert self.at_ms is not None

            def elapsed_time(self, end: "Event") -> float:
                assert self.at_ms is not None
                assert end.at_ms is not None
                return end.at_ms - self.at_ms

        self.Event = Event

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> Site:
        """Stand in for the device."""
        properties = SimpleNamespace(name="Some Accelerator", total_memory=24 * 2**30, major=8, minor=9)
        answers = {
            "Event": self.Event,
            "synchronize": lambda _device: None,
            "get_device_capability": lambda _device: (8, 9),
            "get_device_properties": lambda _device: properties,
            "reset_peak_memory_stats": lambda _device: None,
            "max_memory_allocated": lambda _device: 5 * 2**30,
            "get_sync_debug_mode": lambda: self.mode,
            "set_sync_debug_mode": self.modes.append,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, answer)
        return Site(device=torch.device("cuda", 0), is_tiny=False)


def test_on_cuda_times_are_between_events_and_memory_is_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda()
    site = cuda.patch(monkeypatch)

    def work() -> None:
        cuda.now_ms += 250.0

    assert site.seconds(work) == 0.25
    assert site.peak_bytes(work) == 5 * 2**30
    found = machine(site.device)
    assert (found.device_kind, found.device_name, found.capability) == ("cuda", "Some Accelerator", "8.9")


def test_on_cuda_a_wait_of_the_host_is_an_error_inside_and_never_after(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda()
    site = cuda.patch(monkeypatch)
    with pytest.raises(RuntimeError, match="synchronizing"), site.no_host_waits():
        raise RuntimeError("called a synchronizing CUDA operation")
    assert cuda.modes == ["error", 0]
    with pytest.raises(AssertionError, match="did not see a wait"):
        expect_wait(site, lambda: None)


@pytest.mark.parametrize(("capability", "outcome"), [((8, 9), "skip"), ((9, 0), "fail")])
def test_a_grouped_product_that_waits_is_excused_only_where_torch_has_no_kernel(
    capability: tuple[int, int], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait() -> object:
        raise RuntimeError("called a synchronizing CUDA operation")

    monkeypatch.setattr(Site, "is_cuda", True)
    monkeypatch.setattr(Site, "capability", capability)
    monkeypatch.setattr(Site, "no_host_waits", lambda _self: wait())
    monkeypatch.setattr(Site, "synchronize", lambda _self: None)
    check = run_check("moe_no_host_sync", RUNNERS["moe_no_host_sync"], SITE)
    assert check.outcome == outcome


def test_a_kernel_that_is_not_chosen_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "is_cuda", True)
    monkeypatch.setattr(Site, "capability", (9, 0))
    with pytest.raises(AssertionError, match="called 0 times, not once"):
        checks_attention.varlen_bf16(SITE)


def test_every_named_check_has_a_runner_and_every_part_a_guard_that_exists() -> None:
    assert set(RUNNERS) == set(contents.CHECKS)
    assert len(contents.CHECKS) == len(set(contents.CHECKS))
    assert {check for checks in contents.PARTS.values() for check in checks} <= set(contents.CHECKS)


@pytest.mark.parametrize(("difference", "outcome"), [(1e-3, "pass"), (2e-3, "fail"), (math.nan, "fail")])
def test_a_check_passes_up_to_its_tolerance_and_never_on_nan(difference: float, outcome: str) -> None:
    check = run_check("delta_rule", lambda _: Finding(difference=difference, tolerance=1e-3, note="x"), SITE)
    assert check.outcome == outcome


def test_a_check_that_raises_has_failed_and_one_that_cannot_run_is_skipped_with_its_reason() -> None:
    def broken(_: Site) -> Finding:
        raise RuntimeError("no such kernel")

    def absent(_: Site) -> Finding:
        raise UnavailableError("needs compute capability 8.0")

    assert run_check("delta_rule", broken, SITE).reason == "RuntimeError: no such kernel"
    assert run_check("delta_rule", broken, SITE).outcome == "fail"
    assert run_check("delta_rule", absent, SITE).outcome == "skip"


def test_what_needs_cuda_is_skipped_on_a_cpu_but_fails_there_too_if_it_is_wrong() -> None:
    def found(difference: float) -> Check:
        name = "offload_gradients"
        return run_check(name, lambda _: Finding(difference=difference, tolerance=1e-3, note="x"), SITE)

    assert found(0.0).outcome == "skip"
    assert found(1.0).outcome == "fail"


@pytest.mark.parametrize("family", contents.FAMILIES)
def test_the_models_that_are_timed_fit_a_card_of_24_gb(family: str) -> None:
    model = timed_model(family, is_tiny=False, device=torch.device("meta"))
    num_parameters = sum(p.numel() for p in model.parameters())
    assert 0.3e9 < num_parameters < 0.7e9
    assert 16 * num_parameters < 24e9 / 2  # weights, gradients, two moments in float32; half is left for activations


def test_nan_and_infinity_on_either_side_are_no_agreement() -> None:
    one, two = torch.ones(3), torch.tensor([1.0, math.nan, 1.0])
    assert math.isnan(apart([one], [two]))
    assert math.isnan(apart([two], [one]))
    assert math.isnan(apart([one, one / 0], [one, one / 0]))
    assert apart([one], [one * 2]) == 0.5


def test_a_wait_that_is_not_missed_is_reported_as_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_all(_self: WithoutWaits, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        return ops

    monkeypatch.setattr(WithoutWaits, "_less", keep_all)
    found = checks_offload.removed_wait(SITE)
    assert found.difference == 1
    assert "NOT seen" in found.note


def test_leaving_a_wait_out_leaves_out_that_kind_alone() -> None:
    whole = Schedule(num_offloaded=5)
    bent = WithoutWaits(whole, Point.LOADED)
    assert len(whole.before_backward(2)) - len(bent.before_backward(2)) == 1
    assert whole.before_forward(2) == bent.before_forward(2)


class Ticks:
    """A clock that moves when it is told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


def test_turns_stop_at_the_share_and_a_part_that_does_not_fit_is_refused() -> None:
    clock, site = Ticks(), Site(device=torch.device("cpu"), is_tiny=False)
    budget = Budget(total_s=100.0, clock=clock)
    calls = {"none": lambda: clock.spend(1.0), "all": lambda: clock.spend(1.0)}
    arms = interleaved(site, calls, Share.of(budget, 4), baseline="none")
    # a share of 25 s holds the two turns that do not count and six that do, 3 s each
    assert [len(arm.times_s) for arm in arms.values()] == [6, 6, 6]
    assert set(arms) == {"none", "none_again", "all"}
    clock.spend(70.0)
    with pytest.raises(OverBudgetError, match=r"3 turns of 3\.0 s do not fit the 0 s left"):
        interleaved(site, calls, Share.of(budget, 1), baseline="none")


def test_a_part_is_dropped_when_its_check_failed_its_time_is_up_or_it_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(_site: Site, _share: Share) -> list[object]:
        raise MemoryError("20 GB asked for")

    monkeypatch.setitem(ratios.LAYERS, "moe_layer", out_of_memory)
    failed = Check(name="offload_gradients", outcome="fail", reason="x", took_s=0.1)
    only = {part: contents.PARTS[part] for part in ("reload_layer", "moe_layer")}
    monkeypatch.setattr(ratios, "PARTS", only)
    measured = ratios.measure(SITE, [failed], Budget(total_s=1000.0), lambda _: None)
    assert {d.part: d.reason for d in measured.dropped} == {
        "reload_layer": "failed its check: offload_gradients",
        "moe_layer": "MemoryError: 20 GB asked for",
    }
    late = ratios.measure(SITE, [], Budget(total_s=1.0), lambda _: None)
    assert [d.reason for d in late.dropped] == ["1 s of 1 s left", "1 s of 1 s left"]
