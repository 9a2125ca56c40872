"""Offloaded inputs give plain recompute's gradients; and a schedule without its waits gives wrong ones."""

import torch
from torch import Tensor, nn

from gpu.compare import BF16_MODEL, EXACT, SAME_DEVICE_FP32, Finding, apart, worst
from gpu.links import BentLink, WithoutWaits, be_late, offload
from gpu.models import checked_batch, checked_model
from gpu.one_pass import Pass, one_pass
from gpu.site import Site
from steptune.engine.knobs import Dispatch
from steptune.engine.model import Transformer
from steptune.engine.offload.blocks import keep_block, offload_blocks
from steptune.engine.offload.graph import Graph
from steptune.engine.offload.ops import Point
from steptune.engine.offload.schedule import Schedule, prefetched

NUM_LAYERS, WIDTH, ROWS = 6, 256, 512
DEPTHS = (0, 1, 2)


def gradients(site: Site) -> Finding:
    """Serial, prefetched and doubly prefetched reloads against recompute and against keeping, places used again.

    The last one once more on a stream that is not the default one: the compute lane is whatever stream is current.
    """
    model = checked_model("dense", site.device)
    kept, recomputed = one_pass(model, checked_batch()), one_pass(model, checked_batch(), recompute=True)
    ours = [_offloaded(site, model, depth) for depth in DEPTHS]
    with site.on_another_stream():
        ours.append(_offloaded(site, model, DEPTHS[-1]))
    differences = [apart(p.tensors, recomputed.tensors) for p in ours] + [apart(ours[1].tensors, kept.tensors)]
    is_exact = all(torch.equal(a, b) for p in ours for a, b in zip(p.tensors, recomputed.tensors, strict=True))
    rounded = _bf16_difference(site, model)
    exactly = "bit for bit" if is_exact else "not bit for bit"
    note = f"depths 0, 1, 2 and another stream, {exactly}; under bf16 autocast {rounded:.2g}"
    difference = worst(differences) if rounded <= BF16_MODEL else rounded
    return Finding(difference=difference, tolerance=SAME_DEVICE_FP32, note=note)


def host_sync_inside(site: Site) -> Finding:
    """The same where every layer makes the host wait (the where-loop) and where none does (grouped products)."""
    model = checked_model("moe", site.device)
    hows: tuple[Dispatch, ...] = ("where", "grouped")
    found = {how: _moe_difference(site, model, how) for how in hows}
    note = ", ".join(f"{how} {difference:.2g}" for how, difference in found.items())
    return Finding(difference=worst(list(found.values())), tolerance=SAME_DEVICE_FP32, note=note)


def removed_wait(site: Site) -> Finding:
    """Late copies and layers change nothing; with a wait left out they must, or the check says that it cannot see it.

    Left out: a layer's wait for its own input, seen with late copies, and a copy's wait for the layer that still
    reads its slot, seen with late layers. The second needs a host that runs ahead of its device, which a CPU's does
    not; the wait for a stored copy cannot be seen here at all, since the allocator keeps the memory for the copy.
    """
    stack = _Stack(site)
    expected = stack.gradients(None)
    schedule = prefetched(NUM_LAYERS - 1)
    for is_late in (False, True):
        whole = apart(stack.gradients(schedule, late_copies=is_late, late_layers=is_late), expected)
        if not whole <= SAME_DEVICE_FP32:
            raise AssertionError(f"with every wait in place gradients are {whole} off")
    no_loaded: Schedule = WithoutWaits(schedule, Point.LOADED)  # type: ignore[assignment]
    no_done: Schedule = WithoutWaits(schedule, Point.DONE)  # type: ignore[assignment]
    is_loaded_seen = not apart(stack.gradients(no_loaded, late_copies=True), expected) <= SAME_DEVICE_FP32
    seen = f"missing wait for the input: {'seen' if is_loaded_seen else 'NOT seen'}"
    unseen = int(not is_loaded_seen)
    if site.is_cuda:
        is_done_seen = not apart(stack.gradients(no_done, late_layers=True), expected) <= SAME_DEVICE_FP32
        unseen += not is_done_seen
        seen += f"; for the slot: {'seen' if is_done_seen else 'NOT seen'}"
    else:
        seen += "; for the slot: cannot be seen, a CPU computes before it enqueues"
    note = f"{seen}; for a stored copy: cannot be seen, the allocator keeps its memory"
    return Finding(difference=unseen, tolerance=EXACT, note=note)


def _offloaded(site: Site, model: Transformer, depth: int) -> Pass:
    """Return the second pass through one link: its places have been used before."""
    settings = offload(site, depth=depth)
    for _ in range(2):
        with settings.step() as step:
            found = one_pass(model, checked_batch(), recompute=step)
    assert settings.decision is not None, "a decision was made"
    if not settings.decision.is_on:
        raise AssertionError(f"nothing was offloaded: {settings.decision.because}")
    return found


def _bf16_difference(site: Site, model: Transformer) -> float:
    expected = one_pass(model, checked_batch(), recompute=True, is_bf16=True)
    with offload(site).step() as step:
        found = one_pass(model, checked_batch(), recompute=step, is_bf16=True)
    return apart(found.tensors, expected.tensors)


def _moe_difference(site: Site, model: Transformer, how: Dispatch) -> float:
    expected = one_pass(model, checked_batch(), recompute=True, dispatch=how)
    with offload(site).step() as step:
        found = one_pass(model, checked_batch(), recompute=step, dispatch=how)
    return apart(found.tensors, expected.tensors)


class _Block(nn.Module):
    """A residual product that can be late."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(layer)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5)

    def forward(self, x: Tensor, site: Site, is_late: bool) -> Tensor:
        """Return the output, read from ``x`` late."""
        if is_late:
            be_late(site)
        return x + (x @ self.weight).tanh()


class _Stack:
    """Blocks over one input, run by a schedule."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._blocks = nn.ModuleList([_Block(i) for i in range(NUM_LAYERS)]).to(site.device)
        self._x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(9)).to(site.device)

    def gradients(
        self, schedule: Schedule | None, *, late_copies: bool = False, late_layers: bool = False
    ) -> list[Tensor]:
        """Return every weight's gradient; without a schedule all inputs are kept."""
        link = BentLink(self._site, is_late=late_copies)
        graph = None if schedule is None else Graph(schedule, link)
        run = keep_block if graph is None else offload_blocks(graph)
        x = self._x.clone().requires_grad_()
        try:
            for block in self._blocks:
                x = run(block, x, self._site, late_layers)
            x.square().mean().backward()
            self._site.synchronize()
            return [block.weight.grad.cpu() for block in self._blocks]
        finally:
            self._blocks.zero_grad(set_to_none=True)
            link.close(is_interrupted=True)
            if graph is not None:
                graph.give_up()
