"""Whole models of every family: against the CPU, across documents, through a training step and through a file."""

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from gpu.checks_layers import expect_wait
from gpu.compare import BF16_MODEL, EXACT, FP32, SAME_DEVICE_FP32, Finding, apart, worst
from gpu.models import CHECK_VOCAB, PAD, checked_batch, checked_model
from gpu.one_pass import inputs_of, one_pass, through_layers
from gpu.site import Site
from steptune.core.job import AlgorithmSpec
from steptune.engine.events import Recorder
from steptune.engine.hf.load import load_model
from steptune.engine.hf.save import save_model
from steptune.engine.host_reads import HostReads
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.routes import RouteTape
from steptune.engine.trainer import PreparedBatch, Trainer
from steptune.engine.types import ScoredBatch

CPU = torch.device("cpu")
GRAD_NORM_FP32, GRAD_NORM_BF16 = 1e-3, 5e-2
"""Relative difference of gradient norms: a norm averages the rounding of all its terms."""


def family(site: Site, name: str) -> Finding:
    """Log-probs and every gradient of a packed batch; experts are the CPU's, near-ties would fall differently."""
    batch, tape = checked_batch(), RouteTape()
    expected = one_pass(checked_model(name, CPU), batch, routes=tape).tensors
    choices = {layer: choice.to(site.device) for layer, choice in tape.choices.items()}
    model, routes = checked_model(name, site.device), RouteTape(choices) if choices else None
    exact = apart(one_pass(model, batch, routes=routes).tensors, expected)
    rounded = one_pass(model, batch, routes=routes, is_bf16=True).logprobs_BT
    rounded_off = apart([rounded], expected[:1])
    note = f"log-probs and gradients of packed rows; bf16 log-probs {rounded_off:.2g} (up to {BF16_MODEL})"
    return Finding(difference=exact if rounded_off <= BF16_MODEL else rounded_off, tolerance=FP32, note=note)


def documents_isolated(site: Site) -> Finding:
    """Other tokens in the first row change no other row's log-probs, in any family."""
    batch = checked_batch()
    changed = _with_first_row_changed(batch)
    differences = list[float]()
    for name in ("dense", "moe", "hybrid"):
        model = checked_model(name, site.device)
        before, after = (one_pass(model, b).logprobs_BT for b in (batch, changed))
        if torch.equal(before[0], after[0]):
            raise AssertionError(f"the changed row of {name} did not change, so the check sees nothing")
        differences.append(apart([after[1:]], [before[1:]]))
    note = "dense, moe and hybrid: " + ", ".join(f"{d:.2g}" for d in differences)
    return Finding(difference=worst(differences), tolerance=SAME_DEVICE_FP32, note=note)


def no_host_sync(site: Site) -> Finding:
    """No layer of a packed micro-batch makes the host wait, forward and backward: metadata was counted once, before.

    Dense and hybrid models; a mixture's own waits are `moe_no_host_sync`'s.
    """
    reads = dict[str, int]()
    for name in ("dense", "hybrid"):
        model, inputs = checked_model(name, site.device), inputs_of(checked_batch(), "packed", site.device)
        through_layers(model, inputs)  # the first recurrent layer counts the rows, once for all of them
        with HostReads() as counted:
            through_layers(model, inputs)
        with site.no_host_waits():
            through_layers(model, inputs)
        reads[name] = counted.total
    if site.is_cuda:
        expect_wait(site, lambda: inputs_of(checked_batch(), "packed", site.device))
    note = f"reads of tensors by the host: {reads}; the copies of a micro-batch's inputs are seen waiting"
    return Finding(difference=sum(reads.values()), tolerance=EXACT, note=note)


def train_step(site: Site, *, is_bf16: bool) -> Finding:
    """Two updates with clipping and fused AdamW: gradient norms and the log-probs after them, against the CPU."""
    batch = checked_batch()
    ours, theirs = _trained(site.device, batch, is_bf16=is_bf16), _trained(CPU, batch, is_bf16=False)
    norms = max(abs(a / b - 1) for a, b in zip(ours[0], theirs[0], strict=True))
    tolerance = GRAD_NORM_BF16 if is_bf16 else GRAD_NORM_FP32
    after = apart([ours[1]], [theirs[1]])
    limit = BF16_MODEL if is_bf16 else FP32
    note = f"gradient norms of two updates; log-probs after them {after:.2g} (up to {limit})"
    return Finding(difference=norms if after <= limit else after, tolerance=tolerance, note=note)


def safetensors(site: Site) -> Finding:
    """Weights from the device to a Hugging Face folder and back give the same log-probs bit for bit."""
    batch, model = checked_batch(), checked_model("moe", site.device)
    before = one_pass(model, batch).logprobs_BT
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), model.spec, model.state_dict())
        spec, state = load_model(Path(folder))
    again = Transformer(spec, CHECK_VOCAB).to(site.device)
    again.load_state_dict(state)
    weights = worst([apart([again.state_dict()[name]], [value]) for name, value in model.state_dict().items()])
    after = apart([one_pass(again, batch).logprobs_BT], [before])
    note = f"weights through a file; log-probs {after:.2g} (up to {SAME_DEVICE_FP32})"
    return Finding(difference=weights if after <= SAME_DEVICE_FP32 else after, tolerance=EXACT, note=note)


def trainer(model: Transformer, knobs: EngineKnobs, *, lr: float = 1e-3) -> Trainer:
    """Return a trainer of a checked model."""
    return Trainer(model, AlgorithmSpec(group_size=4, max_completion_len=64, lr=lr), knobs, PAD)


def _trained(device: torch.device, batch: ScoredBatch, *, is_bf16: bool) -> tuple[list[float], Tensor]:
    knobs = EngineKnobs(layout="packed", micro_batch_tokens=256, train_dtype="bf16" if is_bf16 else "fp32")
    learner = trainer(checked_model("dense", device), knobs)
    prepared = PreparedBatch(scored=batch, old_logprobs_BT=None, ref_logprobs_BT=None)
    norms = [learner.update(prepared, weights_version=0, recorder=Recorder()).grad_norm for _ in range(2)]
    learner.configure(knobs.model_copy(update={"train_dtype": "fp32"}))
    return norms, learner.logprobs(batch.rollout, 4096)


def _with_first_row_changed(batch: ScoredBatch) -> ScoredBatch:
    completion_BT = batch.rollout.completion_BT.clone()
    completion_BT[0] = (completion_BT[0] + 7) % CHECK_VOCAB
    tokens_BP = batch.rollout.prompts.tokens_BP.clone()
    tokens_BP[0] = (tokens_BP[0] + 7) % CHECK_VOCAB
    prompts = replace(batch.rollout.prompts, tokens_BP=tokens_BP)
    return replace(batch, rollout=replace(batch.rollout, prompts=prompts, completion_BT=completion_BT))
