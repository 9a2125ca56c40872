"""Puts `bench/` on the path, and makes a file as a GPU would write it."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
sys.path.append(str(BENCH))

from gpu.contents import CHECKS, FAMILIES, PARTS  # noqa: E402
from gpu.record import (  # noqa: E402
    Ceilings,
    Check,
    Distance,
    Dropped,
    GpuResult,
    Machine,
    Table,
    arm,
    ratio,
)


@pytest.fixture
def good() -> GpuResult:
    """Return a whole run that won nothing: its one measured table is a loss."""
    return GpuResult(
        schema_version=1,
        date=datetime(2026, 11, 30, 12, tzinfo=UTC),
        machine=Machine(
            device_kind="cuda",
            device_name="Some Accelerator 80GB",
            capability="9.0",
            device_bytes=80 * 2**30,
            driver="570.1",
            cuda="12.8",
            torch="2.13.0+cu128",
            python="3.11.7",
        ),
        git_commit="0123456789" * 4,
        is_tree_clean=True,
        is_tiny=False,
        budget_s=420.0,
        took_s=391.5,
        checks=tuple(
            Check(name=name, outcome="pass", reason="as on the CPU", difference=1e-5, tolerance=1e-3, took_s=0.5)
            for name in CHECKS
        ),
        ceilings=Ceilings(
            matmul_bf16_flop_per_s=7e14,
            matmul_fp32_flop_per_s=5e13,
            memory_bytes_per_s=3e12,
            to_host_bytes_per_s=5e10,
            to_device_bytes_per_s=5e10,
        ),
        tables=(losing_table(),),
        distances=(
            Distance(family="dense", what="training", achieved=1.4e14, ceiling=7e14, unit="FLOP/s", note="6 FLOP"),
        ),
        dropped=tuple(Dropped(part=part, reason="no time left") for part in PARTS if part not in ("ceilings", "dense")),
    )


def losing_table() -> Table:
    """Return a table in which everything on takes 1.2 times as long."""
    times = {"none": [0.50, 0.51, 0.49], "none_again": [0.51, 0.50, 0.49], "all": [0.60, 0.61, 0.59]}
    arms = {name: arm(name, times_s, 2**33) for name, times_s in times.items()}
    ratios = tuple(ratio(arms[name], arms["none"]) for name in ("none_again", "all"))
    return Table(part=FAMILIES[0], name="dense_update", what="a step", arms=tuple(arms.values()), ratios=ratios)
