"""A result as text for a terminal. Every ratio with its interval and n, every loss as plain as every gain."""

from collections.abc import Iterator

from gpu.published import lines
from gpu.record import Arm, GpuResult, Ratio, Table


def shown(found: GpuResult) -> str:
    """Return all of it."""
    return "\n".join([*_head(found), *_checks(found), *_tables(found), *_distances(found), *_tail(found)])


def _head(found: GpuResult) -> Iterator[str]:
    machine, state = found.machine, {True: "clean", False: "with local changes", None: "unknown"}[found.is_tree_clean]
    yield f"{machine.device_name} ({machine.device_kind}), driver {machine.driver}, CUDA {machine.cuda}"
    yield f"torch {machine.torch}, Python {machine.python}, commit {found.git_commit}, tree {state}"
    if found.is_tiny or machine.device_kind == "cpu":
        yield "NOT A RESULT: tiny sizes or a CPU prove that the script runs, nothing else"


def _checks(found: GpuResult) -> Iterator[str]:
    outcomes = [check.outcome for check in found.checks]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in ("pass", "fail", "skip"))
    yield f"\nchecks: {counts}"
    for check in found.checks:
        size = "" if check.difference is None else f"{check.difference:.2g} of {check.tolerance:.2g} allowed; "
        yield f"  {check.outcome}  {check.name}: {size}{check.reason}"


def _tables(found: GpuResult) -> Iterator[str]:
    for table in found.tables:
        yield f"\n{table.name}: {table.what}"
        yield from (f"  {_arm(arm)}" for arm in table.arms)
        yield from (f"  {_ratio(ratio, table.noise)}" for ratio in table.ratios)
        yield from _memory(table)


def _memory(table: Table) -> Iterator[str]:
    known = [arm for arm in table.arms if arm.peak_bytes is not None]
    if known:
        least = min(known, key=lambda arm: arm.peak_bytes or 0)
        yield f"  least memory: {least.name}"


def _arm(arm: Arm) -> str:
    memory = "memory not counted" if arm.peak_bytes is None else f"peak {arm.peak_bytes / 1e9:.2f} GB"
    return f"{arm.name}: median {1e3 * arm.median_s:.3f} ms of {len(arm.times_s)}, {memory}"


def _ratio(ratio: Ratio, noise: float) -> str:
    """Say faster or slower only where the whole interval is beyond what the baseline differs from itself by."""
    verdict = "faster" if ratio.low > noise else "slower" if ratio.high < 1 / noise else "no difference shown"
    interval = f"{ratio.low:.3f} to {ratio.high:.3f}, n {ratio.n}"
    return f"{ratio.candidate} over {ratio.baseline}: x{ratio.value:.3f} ({interval}), {verdict}"


def _distances(found: GpuResult) -> Iterator[str]:
    if found.ceilings is not None:
        c = found.ceilings
        bf16, fp32 = c.matmul_bf16_flop_per_s / 1e12, c.matmul_fp32_flop_per_s / 1e12
        yield f"\nceilings: {bf16:.3g} TFLOP/s in bf16, {fp32:.3g} in float32"
        yield f"  memory {c.memory_bytes_per_s / 1e9:.4g} GB/s, {_link(c.to_host_bytes_per_s, c.to_device_bytes_per_s)}"
    for distance in found.distances:
        yield f"  {distance.family} {distance.what}: {distance.frac:.3f} of the ceiling ({distance.note})"


def _link(to_host: float | None, to_device: float | None) -> str:
    if to_host is None or to_device is None:
        return "no link to a host"
    return f"link {to_host / 1e9:.3g} GB/s to the host, {to_device / 1e9:.3g} back"


def _tail(found: GpuResult) -> Iterator[str]:
    yield ""
    yield from (f"dropped {part.part}: {part.reason}" for part in found.dropped)
    yield from lines(found)
    yield f"took {found.took_s:.0f} s, of a budget of {found.budget_s:.0f} s for the ratios"
