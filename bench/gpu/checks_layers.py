"""Experts, the gated delta rule and the head, layer by layer, against float32 on the CPU.

Shape letters: N positions, D model, C completion tokens, V vocab.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gpu.compare import BF16, FP32, Finding, apart, moved, worst
from gpu.site import Site, UnavailableError
from steptune.engine.head import token_logprobs
from steptune.engine.host_reads import HostReads
from steptune.engine.knobs import Dispatch
from steptune.engine.models.delta_rule import scan, step
from steptune.engine.moe_dispatch import mix_experts

CPU = torch.device("cpu")
EXPERTS, TOP_K, D_MODEL, D_EXPERT, TOKENS = 16, 4, 64, 32, 192
GROUPED_KERNEL = ((9, 0), (10, 0))
"""Compute capabilities of torch's grouped kernel; elsewhere, and in float32, it loops after a host read (2.10 on)."""

DISPATCHES: tuple[Dispatch, ...] = ("where", "sort", "grouped")


def dispatches(site: Site) -> Finding:
    """All three dispatches give the outputs and gradients of the where-loop on the CPU, an empty expert included."""
    expected = _mixed(CPU, torch.float32, "where")
    exact = {how: apart(_mixed(site.device, torch.float32, how), expected) for how in DISPATCHES}
    rounded = {how: apart(_mixed(site.device, torch.bfloat16, how), expected) for how in DISPATCHES}
    note = "; ".join(f"{how} {exact[how]:.2g}, in bf16 {rounded[how]:.2g}" for how in DISPATCHES)
    off = worst(list(rounded.values()))
    difference = worst(list(exact.values())) if off <= BF16 else off
    return Finding(difference=difference, tolerance=FP32, note=f"{note} (bf16 up to {BF16})")


def no_host_sync(site: Site) -> Finding:
    """`grouped` never lets the host wait, forward and backward; the where-loop, which does, is caught waiting."""
    leaves, expert_Nk = _expert_inputs(site.device, torch.bfloat16)
    with HostReads() as reads:
        _mix(leaves, expert_Nk, "grouped")
    if not site.is_cuda:
        return Finding(difference=reads.total, tolerance=0.0, note=f"{reads.total} reads of tensors by the host")
    expect_wait(site, lambda: _mix(leaves, expert_Nk, "where"))
    try:
        with site.no_host_waits():
            _mix(leaves, expert_Nk, "grouped")
    except RuntimeError as error:
        if "synchroniz" in str(error) and site.capability not in GROUPED_KERNEL:
            reason = f"torch has no grouped kernel for compute capability {site.capability}: it loops, and waits"
            raise UnavailableError(reason) from error
        raise
    return Finding(
        difference=reads.total, tolerance=0.0, note="no wait under sync debug mode; the where-loop's is seen"
    )


def delta_rule(site: Site) -> Finding:
    """Scan and token-by-token steps agree with each other on the device, and with the CPU, gradients included."""
    theirs, ours = _scanned(CPU), _scanned(site.device)
    stepped = _stepped(site.device)
    difference = worst([apart(ours, theirs), apart(stepped, ours[:2])])
    return Finding(difference=difference, tolerance=FP32, note="scan of 150 positions and its gradients; 150 steps")


def tiled_head(site: Site) -> Finding:
    """Log-probs in tiles and whole, float32 and bf16, with the gradients of hidden states and weight."""
    expected = _head(CPU, None, is_bf16=False)
    exact = worst([apart(_head(site.device, tile, is_bf16=False), expected) for tile in (None, 16)])
    rounded = worst([apart(_head(site.device, tile, is_bf16=True), expected) for tile in (None, 16)])
    note = f"whole and tiled; bf16 {rounded:.2g} (up to {BF16})"
    return Finding(difference=exact if rounded <= BF16 else rounded, tolerance=FP32, note=note)


def expect_wait(site: Site, call: Callable[[], object]) -> None:
    """Raise unless ``call``, which makes the host wait, is caught doing so."""
    try:
        with site.no_host_waits():
            call()
    except RuntimeError:
        return
    raise AssertionError("sync debug mode did not see a wait that is there, so it would see nothing")


def _expert_inputs(device: torch.device, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """Return x, gates and both weights as leaves, and choices that leave the last expert without a token."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) / shape[-1] ** 0.5).bfloat16().float()

    x_ND, gate_Nk = 8 * normal(TOKENS, D_MODEL), normal(TOKENS, TOP_K).softmax(-1)
    weights = normal(EXPERTS, 2 * D_EXPERT, D_MODEL), normal(EXPERTS, D_MODEL, D_EXPERT)
    expert_Nk = torch.rand(TOKENS, EXPERTS - 1, generator=generator).topk(TOP_K).indices.to(device)
    leaves = [*moved((x_ND,), device, dtype), *moved((gate_Nk,), device), *moved(weights, device, dtype)]
    return leaves, expert_Nk


def _mix(leaves: list[Tensor], expert_Nk: Tensor, how: Dispatch) -> Tensor:
    x_ND, gate_Nk, gate_up, down = leaves
    out_ND = mix_experts(x_ND, expert_Nk, gate_Nk, gate_up, down, dispatch=how)
    out_ND.backward(torch.ones_like(out_ND))
    return out_ND


def _mixed(device: torch.device, dtype: torch.dtype, how: Dispatch) -> list[Tensor]:
    leaves, expert_Nk = _expert_inputs(device, dtype)
    out_ND = _mix(leaves, expert_Nk, how)
    return [out_ND, *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def _rule_inputs(device: torch.device) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(3, 150, 4, 32, generator=generator) for _ in range(3))
    log_decay, beta = (torch.rand(3, 150, 4, generator=generator) for _ in range(2))
    return moved((q / 32**0.5, torch.nn.functional.normalize(k, dim=-1), v, -log_decay, beta), device)


def _scanned(device: torch.device) -> list[Tensor]:
    leaves = _rule_inputs(device)
    out, state = scan(*leaves)
    (out.sum() + state.square().sum()).backward()
    return [out, state, *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def _stepped(device: torch.device) -> list[Tensor]:
    leaves = [leaf.detach() for leaf in _rule_inputs(device)]
    state, outs = torch.zeros(3, 4, 32, 32, device=device), list[Tensor]()
    for i in range(leaves[0].shape[1]):
        q_RHE, k_RHE, v_RHV, log_decay_RH, beta_RH = (leaf[:, i] for leaf in leaves)
        out, state = step(q_RHE, k_RHE, v_RHV, log_decay_RH, beta_RH, state)
        outs.append(out)
    return [torch.stack(outs, dim=1), state]


def _head(device: torch.device, tile_tokens: int | None, *, is_bf16: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden_CD, weight_VD = (torch.randn(n, 64, generator=generator) / 4 for n in (50, 512))
    target_C = torch.randint(512, (50,), generator=generator).to(device)
    leaves = hidden, weight = moved((hidden_CD, weight_VD), device)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_bf16):
        logprob_C = token_logprobs(hidden, weight, target_C, temperature=0.7, tile_tokens=tile_tokens)
    logprob_C.backward(torch.linspace(-1, 1, 50, device=device))
    return [logprob_C, *(leaf.grad for leaf in leaves if leaf.grad is not None)]
