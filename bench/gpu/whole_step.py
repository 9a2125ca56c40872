"""A whole step of one model: the three optimisations each alone and together, and how far it is from the device.

The baseline has none of them and nothing else against it: packed rows under a dense mask built in every layer,
inputs that come back serially, experts by where-loop. Every arm trains the same model on the same rows, so gradient
norms must agree, or the part is dropped. `recompute` is `all` without offloading: the price of the memory it saves.

Shape letters: B rows, N positions, C completion tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from gpu import dense_mask
from gpu.links import offload
from gpu.models import EOS, PAD, rows, timed_model, timed_spec, timed_vocab
from gpu.record import Arm, Ceilings, Distance, Table
from gpu.site import Site
from gpu.turns import Share, interleaved, table
from steptune.core.job import AlgorithmSpec
from steptune.core.model import ExpertFields
from steptune.engine.context import Attend
from steptune.engine.events import Recorder
from steptune.engine.knobs import Dispatch, EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.probe_batch import batch_of
from steptune.engine.rollout import RolloutEngine
from steptune.engine.trainer import PreparedBatch, Trainer

GRAD_NORM_AGREEMENT = 0.1
"""Relative difference of arms' gradient norms under bf16: kernels round differently; a wrong mask is off by more."""

KNOBS = EngineKnobs(
    share_prefill=True,
    compact_finished=True,
    rollout_dtype="bf16",
    train_dtype="bf16",
    layout="packed",
    micro_batch_tokens=65_536,
    head_tile_tokens=2048,
    recompute=True,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Levers:
    """One arm: ``Levers(attend=None, depth=1, dispatch="grouped")`` is everything on."""

    attend: Callable[..., Attend] | None = None
    """What builds attention in the engine's place."""
    depth: int | None = 1
    """Layers of prefetch; 0 reloads serially, None recomputes from inputs that stayed."""
    dispatch: Dispatch = "grouped"


NONE = Levers(attend=dense_mask.per_layer, depth=0, dispatch="where")
ARMS = {
    "none": NONE,
    "metadata": Levers(depth=0, dispatch="where"),
    "reload": Levers(attend=dense_mask.per_layer, dispatch="where"),
    "moe": Levers(attend=dense_mask.per_layer, depth=0),
    "all": Levers(),
    "recompute": Levers(depth=None),
}


class Subject:
    """One model, its trainer and its rollout."""

    def __init__(self, site: Site, family: str) -> None:
        self.site, self.family = site, family
        self.spec, vocab = timed_spec(family, is_tiny=site.is_tiny), timed_vocab(is_tiny=site.is_tiny)
        self.num_tokens = 3 if site.is_tiny else 64
        picked = rows(1, 2, 6, 5) if site.is_tiny else rows(4, 8, 96, 160)
        self.batch = batch_of(picked, vocab)
        self.model: Transformer = timed_model(family, is_tiny=site.is_tiny, device=site.device)
        algorithm = AlgorithmSpec(group_size=2, max_completion_len=1024, lr=1e-6)
        self.trainer = Trainer(self.model, algorithm, KNOBS, PAD)
        self.offloads = {depth: offload(site, depth=depth) for depth in (0, 1)}
        with torch.device(site.device):
            self.engine = RolloutEngine(self.spec, KNOBS, vocab_size=vocab, pad_id=PAD, eos_id=EOS, device=site.device)
        self.grad_norms: dict[str, float] = {}

    def update(self, name: str) -> None:
        """Train on the rows: forward, backward, clipping, AdamW."""
        levers = ARMS[name]
        self.trainer.configure(KNOBS.model_copy(update={"moe_dispatch": levers.dispatch}))
        self.trainer.gradients.offload = None if levers.depth is None else self.offloads[levers.depth]
        prepared = PreparedBatch(scored=self.batch, old_logprobs_BT=None, ref_logprobs_BT=None)
        with dense_mask.trainer_attends_by(levers.attend):
            stats = self.trainer.update(prepared, weights_version=0, recorder=Recorder())
        self.grad_norms[name] = stats.grad_norm

    def step(self, name: str) -> None:
        """Take the new weights, generate every row to the same length, and train."""
        self.engine.knobs = KNOBS.model_copy(update={"moe_dispatch": ARMS[name].dispatch})
        self.engine.load(self.model.state_dict(), version=0)
        self.generate()
        self.update(name)

    def generate(self) -> None:
        """Generate ``num_tokens`` in every row."""
        prompts = self.batch.rollout.prompts
        self.engine.generate(
            prompts,
            max_completion_len=self.num_tokens,
            temperature=1.0,
            seed=0,
            forced_lengths_B=torch.full_like(prompts.lengths_B, self.num_tokens),
        )

    @property
    def num_positions(self) -> int:
        """Positions that one update computes."""
        return int((self.batch.rollout.prompts.lengths_B + self.batch.rollout.lengths_B).sum())

    def check(self) -> None:
        """Raise unless all arms computed the same thing."""
        norms = self.grad_norms
        first = norms["none"]
        wrong = {name: norm for name, norm in norms.items() if not abs(norm / first - 1) <= GRAD_NORM_AGREEMENT}
        if wrong:
            raise AssertionError(f"gradient norms {wrong} against {first} of `none`")


def whole_step(site: Site, family: str, share: Share, ceilings: Ceilings) -> tuple[list[Table], list[Distance]]:
    """Return the update by arm, the whole step without and with everything, and both distances."""
    subject = Subject(site, family)
    names = [name for name in ARMS if name != "moe" or isinstance(subject.spec, ExpertFields)]
    calls = {name: partial(subject.update, name) for name in names}
    updates = interleaved(site, calls, share.piece(2), baseline="none")
    subject.check()
    pairs = [(name, "none") for name in names[1:-1]] + [("all", "recompute")]
    what = (
        f"one update, {subject.num_positions} positions packed, {_billions(subject.model)}, bf16 over float32 weights"
    )
    calls = {name: partial(subject.step, name) for name in ("none", "all")}
    steps = interleaved(site, calls, share, baseline="none")
    num_rows = len(subject.batch.rollout.lengths_B)
    what_step = f"handover, {num_rows} rows of {subject.num_tokens} new tokens, and that update"
    tables = [
        table(family, f"{family}_update", what, updates, pairs),
        table(family, f"{family}_step", what_step, steps, [("all", "none")]),
    ]
    return tables, [_training(subject, updates["recompute"], ceilings), _decoding(subject, ceilings)]


def _training(subject: Subject, arm: Arm, ceilings: Ceilings) -> Distance:
    num_completion = int(subject.batch.rollout.lengths_B.sum())
    head = subject.model.head_weight.numel() * num_completion / subject.num_positions
    flop = 6 * (_matrix_numbers(subject, num_rows=None) + head) * subject.num_positions
    return Distance(
        family=subject.family,
        what="training",
        achieved=flop / arm.median_s,
        ceiling=ceilings.matmul_bf16_flop_per_s,
        unit="FLOP/s",
        note="6 FLOP per matrix weight in use and position; recompute and attention scores are not counted",
    )


def _decoding(subject: Subject, ceilings: Ceilings) -> Distance:
    num_rows, spec = len(subject.batch.rollout.lengths_B), subject.spec
    iteration_s = min(subject.site.seconds(subject.generate) for _ in range(3)) / subject.num_tokens
    weight_bytes = 2 * (_matrix_numbers(subject, num_rows=num_rows) + subject.model.head_weight.numel())
    length = int(subject.batch.rollout.prompts.lengths_B[0]) + subject.num_tokens // 2
    num_attending = sum(spec.has_full_attention(layer) for layer in range(spec.num_layers))
    cache_bytes = num_rows * length * num_attending * 2 * spec.kv_width * 2
    return Distance(
        family=subject.family,
        what="decoding",
        achieved=(weight_bytes + cache_bytes) / iteration_s,
        ceiling=ceilings.memory_bytes_per_s,
        unit="B/s",
        note=f"bf16 weights in use and KV cache read once per iteration of {num_rows} rows; prefill is in the time",
    )


def _matrix_numbers(subject: Subject, num_rows: int | None) -> float:
    """Return weights in matrices, embedding and head left out: those a token uses, or ``num_rows`` tokens read."""
    spec, total = subject.spec, 0.0
    for name, parameter in subject.model.named_parameters():
        if parameter.ndim < 2 or name.startswith(("embed.", "head.")):
            continue
        share = 1.0
        if isinstance(spec, ExpertFields) and parameter.ndim == 3:
            share = min(1.0, (num_rows or 1) * spec.top_k / spec.num_experts)
        total += share * parameter.numel()
    return total


def _billions(model: Transformer) -> str:
    return f"{sum(p.numel() for p in model.parameters()) / 1e9:.2g} B parameters"
