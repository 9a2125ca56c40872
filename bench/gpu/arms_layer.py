"""The three optimisations, each alone, on a layer: metadata on one block, experts on one dispatch, reload on a stack.

Shape letters: N positions, D model, E experts, k experts per token, F expert width.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gpu import dense_mask
from gpu.links import offload
from gpu.models import CHECK_VOCAB, rows, timed_spec
from gpu.one_pass import WHOLE
from gpu.record import Table
from gpu.site import Site
from gpu.turns import Share, interleaved, table
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.knobs import Dispatch
from steptune.engine.micro_batch import Run
from steptune.engine.model import Block, Transformer
from steptune.engine.models.layers import rotary
from steptune.engine.moe_dispatch import mix_experts
from steptune.engine.offload.blocks import RunBlock, keep_block, offload_blocks, recompute_block
from steptune.engine.offload.graph import Graph
from steptune.engine.offload.schedule import Schedule, lazy, prefetched, serial
from steptune.engine.plan import Layout, plan_batch

DISPATCHES: tuple[Dispatch, ...] = ("where", "sort", "grouped")
EXPERTS, TINY_EXPERTS = ((8, 2), (64, 8), (256, 8)), ((8, 2),)
"""Experts and how many of them a token takes: 256 and 8 as in Qwen3.6-35B-A3B."""

STACK_LAYERS, TINY_STACK_LAYERS = 12, 4


def metadata(site: Site, share: Share) -> list[Table]:
    """Time forward and backward of one block over packed rows, by where its metadata comes from."""
    picked = rows(1, 3, 5, 9) if site.is_tiny else rows(4, 8, 96, 160)
    block = _BlockOver(site)
    packed, padded = (_runs(picked.rows, layout) for layout in ("packed", "padded"))
    calls = {
        "mask_per_layer": block.call(packed, dense_mask.per_layer),
        "mask_cached": block.call(packed, dense_mask.cached),
        "padded": block.call(padded, attend_runs),
        "packed": block.call(packed, attend_runs),
    }
    positions = [sum(run.width * run.num_rows for run in runs) for runs in (packed, padded)]
    what = f"one block, forward and backward, bf16; {positions[0]} positions packed, {positions[1]} padded"
    arms = interleaved(site, calls, share, baseline="mask_per_layer")
    pairs = [(name, "mask_per_layer") for name in calls if name != "mask_per_layer"] + [("packed", "mask_cached")]
    return [table("metadata_layer", "metadata_layer", what, arms, pairs)]


def moe(site: Site, share: Share) -> list[Table]:
    """Time forward and backward of one mixture of experts, by dispatch, for few and many experts."""
    cases, tables = TINY_EXPERTS if site.is_tiny else EXPERTS, list[Table]()
    for number, (num_experts, top_k) in enumerate(cases):
        calls, what = _expert_calls(site, num_experts, top_k)
        arms = interleaved(site, calls, share.piece(len(cases) - number), baseline="where")
        pairs = [("sort", "where"), ("grouped", "where"), ("grouped", "sort")]
        tables.append(table("moe_layer", f"moe_layer_{num_experts}", what, arms, pairs))
    return tables


def reload(site: Site, share: Share) -> list[Table]:
    """Time forward and backward of a stack, by how its inputs come back, with and without a host that waits inside."""
    stack = _Stack(site)
    number = stack.num_layers - 1
    schedules = {"serial": serial(number), "lazy": lazy(number), "prefetched": prefetched(number)}
    calls: dict[str, Callable[[], object]] = {
        "keep": partial(stack, keep_block, is_synced=False),
        "recompute": partial(stack, recompute_block, is_synced=False),
    }
    for name, schedule in schedules.items():
        calls[name] = partial(stack.offloaded, schedule, is_synced=False)
        calls[f"{name}_host_sync"] = partial(stack.offloaded, schedule, is_synced=True)
    pairs = [("prefetched", "serial"), ("lazy", "serial"), ("prefetched", "recompute"), ("recompute", "keep")]
    pairs += [("prefetched_host_sync", "serial_host_sync"), ("lazy_host_sync", "serial_host_sync")]
    arms = interleaved(site, calls, share, baseline="serial")
    return [table("reload_layer", "reload_layer", stack.what, arms, pairs)]


class _BlockOver:
    """One attention block of the dense model."""

    def __init__(self, site: Site) -> None:
        self._site = site
        spec = timed_spec("dense", is_tiny=site.is_tiny).model_copy(update={"num_layers": 1})
        with torch.device(site.device):
            self._model = Transformer(spec, CHECK_VOCAB)

    def call(self, runs: tuple[Run, ...], build: Callable[..., Any]) -> Callable[[], object]:
        """Return forward and backward over ``runs``; metadata is built before, but by the arm that builds per layer."""
        device = self._site.device
        positions_N = torch.cat([torch.arange(run.width).repeat(run.num_rows) for run in runs]).to(device)
        context = Context(attend=build(runs, device=device))

        def run() -> None:
            with torch.autocast(device.type, dtype=torch.bfloat16):
                hidden_ND = self._model.hidden(positions_N % CHECK_VOCAB, positions_N, context)
            hidden_ND.float().square().mean().backward()

        return run


def _runs(lengths: list[tuple[int, int]], layout: Layout) -> tuple[Run, ...]:
    prompt_B, completion_B = ([row[i] for row in lengths] for i in range(2))
    plan = plan_batch(prompt_B, completion_B, layout=layout, token_budget=WHOLE, max_completion_len=1)
    return plan.micro_batches[0].runs


def _expert_calls(site: Site, num_experts: int, top_k: int) -> tuple[dict[str, Callable[[], object]], str]:
    num_positions, d_model, d_expert = (64, 32, 16) if site.is_tiny else (8192, 1024, 256)
    shapes = (num_positions, d_model), (num_experts, 2 * d_expert, d_model), (num_experts, d_model, d_expert)
    x_ND, *weights = ((torch.randn(shape, device=site.device) / 32).bfloat16().requires_grad_() for shape in shapes)
    scores_NE = torch.rand(num_positions, num_experts, device=site.device)
    gate_Nk, expert_Nk = scores_NE.topk(top_k)

    def run(how: Dispatch) -> None:
        out_ND = mix_experts(x_ND, expert_Nk, gate_Nk, *weights, dispatch=how)
        torch.autograd.grad(out_ND.float().sum(), (x_ND, *weights))

    what = f"{num_positions} positions, {num_experts} experts of {d_model} x {d_expert}, {top_k} a token, bf16"
    return {how: partial(run, how) for how in DISPATCHES}, f"one mixture, forward and backward; {what}"


class _Stack:
    """Blocks of the dense model over one input under autocast; layer inputs are float32, as the engine's are."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.num_layers = TINY_STACK_LAYERS if site.is_tiny else STACK_LAYERS
        num_positions, width = (32, 32) if site.is_tiny else (16_384, 512)
        spec = timed_spec("dense", is_tiny=site.is_tiny)
        with torch.device(site.device):
            self._blocks = nn.ModuleList([Block(spec, i) for i in range(self.num_layers)])
        self._syncing = nn.ModuleList([_Syncing(block) for block in self._blocks])
        positions_N = torch.arange(num_positions, device=site.device) % width
        runs = [Run(width, num_positions // width)]
        self._rest = (*rotary(positions_N, spec, torch.float32), Context(attend=attend_runs(runs, device=site.device)))
        self._x_ND = torch.randn(num_positions, spec.d_model, device=site.device)
        self._link = offload(site).make_link()
        megabytes = self._x_ND.nbytes / 1e6
        self.what = f"{self.num_layers} blocks, forward and backward, bf16; inputs of {megabytes:.3g} MB each"

    def __call__(self, run: RunBlock, *, is_synced: bool) -> None:
        """Run all blocks forward and backward."""
        x_ND = self._x_ND.requires_grad_()
        with torch.autocast(self._site.device.type, dtype=torch.bfloat16):
            for block in self._syncing if is_synced else self._blocks:
                x_ND = run(block, x_ND, *self._rest)
        x_ND.float().square().mean().backward()

    def offloaded(self, schedule: Schedule, *, is_synced: bool) -> None:
        """Run them with inputs away; on a CPU the copier thread is the call's own."""
        link = self._link if self._site.is_cuda else offload(self._site).make_link()
        graph = Graph(schedule, link)
        try:
            self(offload_blocks(graph), is_synced=is_synced)
        finally:
            link.close(is_interrupted=not graph.is_over)
            graph.give_up()


class _Syncing(nn.Module):
    """A block in which the host waits for a number, as a dispatch by `tolist` does."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, *rest: object) -> Tensor:
        """Return the block's output."""
        out: Tensor = self.block(x, *rest)
        out.flatten()[0].item()
        return out
