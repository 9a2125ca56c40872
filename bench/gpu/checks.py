"""Runs every check and files what became of it: pass, fail or skip, always with a reason.

A check that raises has failed, whatever it raised; the others still run. On a CPU, checks of what only CUDA has run
too, on the CPU's own path, and are filed as skipped: what they then prove is the script.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

from gpu import checks_attention, checks_layers, checks_model, checks_offload, checks_rollout
from gpu.compare import Finding
from gpu.contents import CHECKS, FAMILIES, NEEDS_CUDA
from gpu.record import Check
from gpu.site import Site, UnavailableError

RUNNERS: dict[str, Callable[[Site], Finding]] = {
    "attention_runs_fp32": checks_attention.runs_fp32,
    "attention_varlen_bf16": checks_attention.varlen_bf16,
    "attention_int32_guard": checks_attention.int32_guard,
    "attention_shared_prefix": checks_attention.shared_prefix,
    **{f"model_{name}": partial(checks_model.family, name=name) for name in FAMILIES},
    "documents_isolated": checks_model.documents_isolated,
    "moe_dispatches": checks_layers.dispatches,
    "moe_no_host_sync": checks_layers.no_host_sync,
    "model_no_host_sync": checks_model.no_host_sync,
    "delta_rule": checks_layers.delta_rule,
    "tiled_head": checks_layers.tiled_head,
    "keyed_noise": checks_rollout.keyed_noise,
    **{f"rollout_{name}": partial(checks_rollout.rollout, family=name) for name in FAMILIES},
    "train_step_fp32": partial(checks_model.train_step, is_bf16=False),
    "train_step_bf16": partial(checks_model.train_step, is_bf16=True),
    "safetensors": checks_model.safetensors,
    "offload_gradients": checks_offload.gradients,
    "offload_host_sync_inside": checks_offload.host_sync_inside,
    "offload_removed_wait": checks_offload.removed_wait,
}
"""Every check of `contents.CHECKS` (a test compares)."""


def run_all(site: Site) -> Iterator[Check]:
    """Yield every check as it is done."""
    for name in CHECKS:
        yield run_check(name, RUNNERS[name], site)


def run_check(name: str, call: Callable[[Site], Finding], site: Site) -> Check:
    """Run one check; nothing it raises gets out."""
    start_s = time.perf_counter()
    try:
        found = call(site)
        site.synchronize()
    except UnavailableError as error:
        return Check(name=name, outcome="skip", reason=str(error), took_s=time.perf_counter() - start_s)
    except Exception as error:  # noqa: BLE001  the edge of a check: the others must run, and the file says why
        reason = f"{type(error).__name__}: {error}"[:500]
        return Check(name=name, outcome="fail", reason=reason, took_s=time.perf_counter() - start_s)
    return _filed(name, found, site, time.perf_counter() - start_s)


def _filed(name: str, found: Finding, site: Site, took_s: float) -> Check:
    is_number = 0 <= found.difference < float("inf")
    is_pass, reason = is_number and found.difference <= found.tolerance, found.note
    if is_pass and name in NEEDS_CUDA and not site.is_cuda:
        reason = f"needs CUDA; the script ran on a CPU and agreed: {found.note}"
    return Check(
        name=name,
        outcome="skip" if is_pass and name in NEEDS_CUDA and not site.is_cuda else "pass" if is_pass else "fail",
        reason=reason if is_number else f"not a number; {found.note}",
        difference=found.difference if is_number else None,
        tolerance=found.tolerance,
        took_s=took_s,
    )
