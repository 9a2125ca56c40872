"""The trainer: one rollout batch in, one or more optimizer updates out.

::

    prepare(batch)   old-log-prob and reference passes, only where the algorithm needs them (own top-level spans)
    update(prepared) plan -> for every optimizer update: gradients (see `gradients`), clip, AdamW

The surprise: with one update per rollout batch the old log-probs *are* the current ones, so without a
separate pass the ratio is exactly 1 and the loss only carries the gradient (as in TRL). The same forward
gives the gap to the rollout's log-probs for free.

With two `train_ranks` a second process computes its part of every pass and gradient at once (see `ranks.wire`).
Clipping is by the norm of the sum, so it is the same whoever computed what.

Shape letters: B rows, T completion token.
"""

import copy
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from steptune.core.errors import TrialError, explain
from steptune.core.job import AlgorithmSpec
from steptune.core.phase import Phase, Role, SpanKind
from steptune.core.profile import LagStats
from steptune.engine.events import Recorder
from steptune.engine.gap import gap_by_lag
from steptune.engine.gradients import Gradients, LaidOut, Share, nothing, update_of_rows
from steptune.engine.knob_checks import check_knobs
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.ranks.messages import GradientAnswer
from steptune.engine.ranks.second import RankSpec
from steptune.engine.ranks.wire import RankWire, StartRank, check_shares, start_process
from steptune.engine.types import PreparedBatch, RolloutBatch, ScoredBatch

__all__ = ["PreparedBatch", "TrainStats", "Trainer", "TrainerState"]

TrainerState = dict[str, Any]
"""Copies of the model's and the optimizer's `state_dict`, for `torch.save`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainStats:
    """What one rollout batch did to the weights.

    Example: ``TrainStats(loss=0.013, grad_norms=(0.41,), gap_by_lag=(LagStats(lag=0, ...),), num_updates=1,
    num_micro_batches=4, padded_tokens=6132, active_tokens=6132, other_rank_memory_bytes=None)``.
    """

    loss: float
    """Mean over the updates."""
    grad_norms: tuple[float, ...]
    """L2 norm before clipping, one per update."""
    gap_by_lag: tuple[LagStats, ...]
    """Trainer against rollout log-probs of every row, each before the update that trained it. Lag 0 is the mismatch at
    the same weights; of several updates the later ones are of lag 1 and more, though the data was fresh."""
    num_updates: int
    num_micro_batches: int
    padded_tokens: int
    """Positions of the training forward, padding included."""
    active_tokens: int
    """Prompt and completion tokens computed; a shared prompt counts once for its group."""

    other_rank_memory_bytes: int | None
    """Peak memory of the second rank's process, what it shares with the first not counted; None without one."""
    router_agreement_frac: float | None = None
    """Experts of the rollout that the trainer's own router would have chosen too, 0..1; None where none is replayed."""
    num_compiled: int | None = None
    """Graphs compiled since the last update, on both ranks; 0 after the warm-up, None without `compile`."""

    @property
    def grad_norm(self) -> float:
        """Mean gradient norm of the updates."""
        return sum(self.grad_norms) / len(self.grad_norms)


@dataclass(frozen=True, kw_only=True, slots=True)
class _UpdatePart:
    """One update's loss over all ranks, and what the second rank said."""

    loss: float
    own: Share
    other: GradientAnswer | None


@final
class Trainer:
    """Owns the optimizer of one model; see the module for the order of calls."""

    # a lever set on the wrong object (benches once set one that had moved to `gradients`) is an error, not ignored
    __slots__ = (
        "algorithm",
        "device",
        "folder",
        "gradients",
        "model",
        "optimizer",
        "reference",
        "second",
        "start_rank",
    )

    def __init__(
        self,
        model: Transformer,
        algorithm: AlgorithmSpec,
        knobs: EngineKnobs,
        pad_id: int,
        reference: Transformer | None = None,
        *,
        folder: Path | None = None,
        start_rank: StartRank = start_process,
    ) -> None:
        """Make an AdamW optimizer for ``model``; ``reference`` is read only, for the KL term.

        ``folder`` is where a second rank writes its log and events, ``start_rank`` starts it and `close` stops it.

        Raises:
            JobError: the knobs do not fit the algorithm (see `configure`).
        """
        assert (reference is not None) == (algorithm.kl_coef > 0), "a KL term and a reference model go together"
        check_knobs(knobs, algorithm, model.spec)  # before anything is compiled for them
        self.model = model
        self.device = model.embed.weight.device
        self.algorithm = algorithm
        self.reference = reference
        self.gradients = Gradients(model, algorithm, knobs, pad_id, reference)
        self.folder, self.start_rank = folder, start_rank
        self.second: RankWire | None = None
        self.configure(knobs)
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=algorithm.lr, weight_decay=algorithm.weight_decay, fused=True
        )

    @property
    def knobs(self) -> EngineKnobs:
        """What `configure` was given last."""
        return self.gradients.knobs

    def configure(self, knobs: EngineKnobs) -> None:
        """Switch to other knobs between two batches.

        Raises:
            JobError: the knobs do not fit the algorithm or the model (see `knob_checks`), or the weights cannot be
                shared with a second rank (see `ranks.memory`).
        """
        check_knobs(knobs, self.algorithm, self.model.spec)
        self.gradients.configure(knobs)
        if knobs.train_ranks == 1:
            self.close()
        elif self.second is None:
            self.second = self._start_second(knobs)
            self.gradients.between = self.second.check

    def _start_second(self, knobs: EngineKnobs) -> RankWire:
        assert self.folder is not None, "a second rank needs a folder for its log"
        spec = RankSpec(
            algorithm=self.algorithm,
            knobs=knobs,
            pad_id=self.gradients.pad_id,
            folder=self.folder,
            parent_pid=os.getpid(),
        )
        return RankWire(self.model, self.reference, spec, self.start_rank)

    def close(self) -> None:
        """Stop the second rank, if there is one."""
        if self.second is not None:
            self.gradients.between = nothing
            self.second.close()
            self.second = None

    def prepare(self, batch: ScoredBatch, recorder: Recorder) -> PreparedBatch:
        """Run the passes that come before training, each in its own top-level span.

        Raises:
            TrialError: the second rank died, failed or hangs.
        """
        old_BT = ref_BT = None
        if self.knobs.logprob_batch_tokens is not None:
            with recorder.span(Role.TRAINER, Phase.OLD_LOGPROB):
                old_BT = self._pass(batch.rollout, self.knobs.logprob_batch_tokens, recorder, of_reference=False)
        if self.reference is not None:
            budget = self.knobs.logprob_batch_tokens or self.knobs.micro_batch_tokens
            with recorder.span(Role.TRAINER, Phase.REF_LOGPROB):
                ref_BT = self._pass(batch.rollout, budget, recorder, of_reference=True)
        return PreparedBatch(scored=batch, old_logprobs_BT=old_BT, ref_logprobs_BT=ref_BT)

    def _pass(self, rollout: RolloutBatch, budget: int, recorder: Recorder, *, of_reference: bool) -> Tensor:
        """Return [B, T] log-probs, each rank computing its rows."""
        if self.second is not None:
            self.second.order_pass(rollout, budget, of_reference=of_reference, knobs=self.knobs, step=recorder.step)
        model = self.reference if of_reference else self.model
        own_BT = self.gradients.logprobs(rollout, budget, model, num_ranks=self.knobs.train_ranks)
        return own_BT if self.second is None else own_BT + self.second.logprobs()

    def logprobs(self, batch: RolloutBatch, batch_tokens: int, model: Transformer | None = None) -> Tensor:
        """Return float32 [B, T] log-probs of all rows, on this rank alone; see `Gradients.logprobs`."""
        return self.gradients.logprobs(batch, batch_tokens, model)

    def update(self, prepared: PreparedBatch, *, weights_version: int, recorder: Recorder) -> TrainStats:
        """Train on one batch: `algorithm.num_updates` optimizer steps. The caller books the `train` span.

        ``weights_version`` is the version of the weights before the first of these updates.

        Raises:
            TrialError: a gradient is not finite, and that update is not applied; log-probs of the rollout are not,
                which a correction would take for tokens to leave out; or the second rank died, failed or hangs.
        """
        rollout = prepared.scored.rollout
        if self.knobs.correction != "none":
            _check_finite(rollout)
        self._order(prepared, 0, recorder)
        with recorder.span(Role.TRAINER, "train/plan"):
            laid = self.gradients.lay_out(prepared)
        cur_BT = torch.zeros(rollout.completion_BT.shape, device=self.device)
        parts, grad_norms = list[_UpdatePart](), list[float]()
        for number in range(len(laid.plan.updates)):
            if number > 0:
                self._order(prepared, number, recorder)
            parts.append(self._accumulate(laid, number, recorder, cur_BT))
            with recorder.span(Role.TRAINER, "train/optimizer"):
                grad_norms.append(self._step(parts[-1].loss))
        plan, other = laid.plan, parts[0].other
        return TrainStats(
            loss=sum(part.loss for part in parts) / len(parts),
            grad_norms=tuple(grad_norms),
            gap_by_lag=gap_by_lag(
                sum((part.other.cur_BT for part in parts if part.other), start=cur_BT.cpu()),
                rollout.logprobs_BT,
                laid.joined.mask_BT,
                rollout.versions_BT,
                trainer_version_B=weights_version + update_of_rows(plan.update_rows),
            ),
            num_updates=len(plan.updates),
            num_micro_batches=len(plan.micro_batches) + (other.num_micro_batches if other else 0),
            padded_tokens=plan.padded_tokens + (other.padded_tokens if other else 0),
            active_tokens=plan.active_tokens + (other.active_tokens if other else 0),
            other_rank_memory_bytes=other.peak_memory_bytes if other else None,
            router_agreement_frac=_router_agreement(parts),
            num_compiled=sum(share.num_compiled for share in _shares(parts)) if self.knobs.compile else None,
        )

    def _order(self, prepared: PreparedBatch, number: int, recorder: Recorder) -> None:
        """Let the second rank begin its part of an update."""
        if self.second is not None:
            with recorder.span(Role.TRAINER, "train/order"):
                self.second.order_gradient(prepared, number, knobs=self.knobs, step=recorder.step)

    def _accumulate(self, laid: LaidOut, number: int, recorder: Recorder, cur_BT: Tensor) -> _UpdatePart:
        """Leave the whole update's gradient in the model, the second rank's part added; fill its rows of ``cur_BT``."""
        self.optimizer.zero_grad()  # of an update that failed half-way
        start_s = recorder.clock()
        own = self.gradients.accumulate(laid, number, recorder, cur_BT)
        if self.second is None:
            return _UpdatePart(loss=own.loss, own=own, other=None)
        busy_s = recorder.clock() - start_s
        with recorder.span(Role.TRAINER, "train/rank_wait", SpanKind.EXPOSED_WAIT):
            other = self.second.gradient()
        recorder.count("train_busy_s", busy_s)
        recorder.count("train_imbalance", max(busy_s, other.busy_s) / ((busy_s + other.busy_s) / 2))
        check_shares((own, other.share))
        with recorder.span(Role.TRAINER, "train/reduce"):
            self.second.add()
        return _UpdatePart(loss=own.loss + other.share.loss, own=own, other=other)

    def state(self) -> TrainerState:
        """Return copies of weights and optimizer state: with them a run continues exactly."""
        return copy.deepcopy({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()})

    def load_state(self, state: TrainerState) -> None:
        """Continue from what `state` returned; the model's tensors are written in place."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))

    def _step(self, loss: float) -> float:
        """Clip and step; return the norm before clipping. ``loss`` is what the gradients are of, to say what broke."""
        params = list(self.model.parameters())
        norm_tensor = get_total_norm([p.grad for p in params if p.grad is not None])
        norm = float(norm_tensor)
        if not math.isfinite(norm):
            hint = _what_is_not_finite(self.model, loss)  # before clipping spreads it to every gradient
            self.optimizer.zero_grad()
            raise TrialError(
                explain(
                    "the gradient is not finite, so this update was not applied",
                    got=f"norm {norm}",
                    allowed="a finite norm",
                    hint=hint,
                )
            )
        clip_grads_with_norm_(params, self.algorithm.max_grad_norm, norm_tensor)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm


def _router_agreement(parts: Sequence[_UpdatePart]) -> float | None:
    shares = _shares(parts)
    num_routes = sum(share.num_routes for share in shares)
    return sum(share.num_same_routes for share in shares) / num_routes if num_routes else None


def _shares(parts: Sequence[_UpdatePart]) -> list[Share]:
    return [share for part in parts for share in (part.own, part.other.share if part.other else None) if share]


def _check_finite(rollout: RolloutBatch) -> None:
    broken = int((~rollout.logprobs_BT.isfinite() & rollout.mask_BT).sum())
    if broken:
        raise TrialError(
            explain(
                "log-probs that the rollout recorded are not finite, so no correction can be made of them",
                got=f"{broken} of {int(rollout.lengths_B.sum())} tokens",
                allowed="finite log-probs",
                hint="the rollout's weights or its number format are broken; look at its mismatch with the trainer",
            )
        )


def _what_is_not_finite(model: Transformer, loss: float) -> str:
    """Return where to look: at weights that were not finite before the update, at the loss, or at one gradient."""
    named = list(model.named_parameters())
    broken = [name for name, param in named if not bool(param.isfinite().all())]
    if broken:
        return f"the weights were not finite before it, `{broken[0]}` among {len(broken)}; start from weights that are"
    if not math.isfinite(loss):
        return f"the loss was {loss} already: look for NaN in rewards or log-probs"
    spoilt = [name for name, param in named if param.grad is not None and not bool(param.grad.isfinite().all())]
    where = f"`{spoilt[0]}` is the first of {len(spoilt)} tensors" if spoilt else "only their sum of squares overflowed"
    return f"{where}, though the loss was {loss:.3g}: lower `algorithm.lr` or train in fp32"
