"""Bytes of one device in every phase of a step, at the longest sequences the job allows.

    rollout   engine's share + its graphs                            | what the trainer leaves on the device
              (or, without an engine, divided weights gathered whole)
    logprob   weights, gathered units, one layer at work, logits     | the engine asleep (or its whole share)
    train     + gradients, optimizer, kept activations               | likewise
    step      weights, gradients, optimizer, what its step adds      | likewise
    sync      weights, tensors in flight                             | the engine's weights, awake

An engine on devices of its own keeps its share while it receives new weights: tensors in flight and the receiver's
context are part of its rollout phase.

Everything here is frozen from published formulas; nothing was fitted to runs that did or did not fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from steptune.core.estimate import Estimate
from steptune.footprint.activations import kept_term, working_term
from steptune.footprint.engine import (
    SHARE_SOURCE,
    context_term,
    engine_weights,
    graphs_term,
    share_bytes,
)
from steptune.footprint.layout import JobLayout, Place, RolloutLayout, TrainLayout
from steptune.footprint.logits import logits_term
from steptune.footprint.step import bucket_term, step_terms
from steptune.footprint.term import Term, exact, total
from steptune.footprint.weights import (
    GATHERED_BYTES,
    adapter_term,
    casts_term,
    frozen_term,
    gathered_term,
    gradient_term,
    largest_table_bytes,
    local_parameters,
    optimizer_term,
    reference_term,
    weight_term,
)
from steptune.shapes.count import parameters
from steptune.shapes.shape import ModelShape

GATHERED = "https://huggingface.co/docs/trl/grpo_trainer (`ds3_gather_for_generation`: on by default)"

FRAGMENTED_FRAC = (0.0, 0.075, 0.15)
"""Part of what comes and goes that the allocator holds without using it: 15 % on average over eight models (GMLake,
arXiv 2401.08156, abstract), none with expandable segments at best, the middle between."""


class PhaseName(StrEnum):
    """A phase of the step."""

    ROLLOUT = "rollout"
    LOGPROB = "logprob"
    TRAIN = "train"
    STEP = "step"
    SYNC = "sync"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseBytes:
    """One phase's terms on its fullest device."""

    phase: PhaseName
    terms: tuple[Term, ...]

    @property
    def total(self) -> Estimate:
        """The sum."""
        return total(self.terms)


def phase_bytes(shape: ModelShape, job: JobLayout, capacity_bytes: float) -> tuple[PhaseBytes, ...]:
    """Return the bytes of each phase; an engine's phases only where the job states an engine.

    Args:
        shape: the model.
        job: trainer and engine.
        capacity_bytes: memory of one device, of which an engine takes its share.
    """
    train, rollout = job.train, job.rollout
    shared = rollout if job.is_colocated else None
    phases = (
        []
        if rollout is None
        else [PhaseBytes(phase=PhaseName.ROLLOUT, terms=_rollout(shape, job, rollout, capacity_bytes))]
    )
    if rollout is None and train.generates:
        phases.append(PhaseBytes(phase=PhaseName.ROLLOUT, terms=_own_generation(shape, train)))
    phases.append(PhaseBytes(phase=PhaseName.LOGPROB, terms=_logprob(shape, train, shared, capacity_bytes)))
    phases.append(PhaseBytes(phase=PhaseName.TRAIN, terms=_train(shape, train, shared, capacity_bytes)))
    phases.append(PhaseBytes(phase=PhaseName.STEP, terms=_step(shape, train, shared, capacity_bytes)))
    if rollout is not None:
        phases.append(PhaseBytes(phase=PhaseName.SYNC, terms=_sync(shape, train, rollout, shared, capacity_bytes)))
    return tuple(phases)


def held_by_trainer(shape: ModelShape, train: TrainLayout) -> tuple[Term, ...]:
    """Return what the trainer leaves on the device while it does nothing."""
    terms = [context_term("trainer's context"), *_reference(shape, train, is_used=False), bucket_term(train)]
    if train.weights is Place.DEVICE:
        terms += [weight_term(shape, train), adapter_term(shape, train)]
    if train.optimizer is Place.DEVICE:
        terms.append(optimizer_term(shape, train))
        if train.grads_stay:
            terms.append(gradient_term(shape, train))
    return _present(terms)


def _rollout(shape: ModelShape, job: JobLayout, rollout: RolloutLayout, capacity_bytes: float) -> tuple[Term, ...]:
    held = held_by_trainer(shape, job.train) if job.is_colocated else ()
    budget = share_bytes(rollout, capacity_bytes, total(held).value)
    receiving = [] if job.is_colocated else [_flight(shape, rollout), context_term("receiver's context")]
    return _present([exact("engine's share", budget, SHARE_SOURCE), graphs_term(rollout), *held, *receiving])


def _own_generation(shape: ModelShape, train: TrainLayout) -> tuple[Term, ...]:
    """What generating with divided weights takes: all of them, beside what the trainer holds."""
    local = local_parameters(shape, train)
    is_divided = train.sharding == "full" and local.dense_ways > 1
    whole = GATHERED_BYTES * local.whole if is_divided else 0.0
    return _present([*held_by_trainer(shape, train), exact("weights gathered to generate", whole, GATHERED)])


def _logprob(
    shape: ModelShape, train: TrainLayout, engine: RolloutLayout | None, capacity_bytes: float
) -> tuple[Term, ...]:
    tokens = (train.micro_tokens if train.logprob_tokens is None else train.logprob_tokens) / train.context
    moving = [
        working_term(shape, train, tokens, with_grads=False),
        logits_term(shape, train, tokens, with_grads=False),
    ]
    resting = [optimizer_term(shape, train)] if train.optimizer is Place.DEVICE else []
    if train.grads_stay and train.optimizer is Place.DEVICE:
        resting.append(gradient_term(shape, train))
    return _present(
        [
            *_weights(shape, train, with_grads=False),
            *_reference(shape, train, is_used=True),
            *resting,
            *moving,
            _fragmentation(moving),
            *_around(shape, engine, capacity_bytes),
        ]
    )


def _train(
    shape: ModelShape, train: TrainLayout, engine: RolloutLayout | None, capacity_bytes: float
) -> tuple[Term, ...]:
    moving = _moving(shape, train, train.micro_tokens / train.context)
    optimizer = [] if train.optimizer is Place.HOST else [optimizer_term(shape, train)]
    return _present(
        [
            *_weights(shape, train, with_grads=True),
            casts_term(shape, train),
            gradient_term(shape, train),
            bucket_term(train),
            *optimizer,
            *_reference(shape, train, is_used=False),
            *moving,
            _fragmentation(moving),
            *_around(shape, engine, capacity_bytes),
        ]
    )


def _step(
    shape: ModelShape, train: TrainLayout, engine: RolloutLayout | None, capacity_bytes: float
) -> tuple[Term, ...]:
    stored = [] if train.weights is Place.HOST else [weight_term(shape, train)]
    optimizer = [] if train.optimizer is Place.HOST else [optimizer_term(shape, train)]
    return _present(
        [
            *stored,
            adapter_term(shape, train),
            gradient_term(shape, train),
            *optimizer,
            *step_terms(shape, train),
            _fragmentation(_moving(shape, train, train.micro_tokens / train.context)),
            bucket_term(train),
            *_reference(shape, train, is_used=False),
            *_around(shape, engine, capacity_bytes),
        ]
    )


def _moving(shape: ModelShape, train: TrainLayout, tokens: float) -> list[Term]:
    """What comes and goes in a training pass: the larger of its two moments, or of the pipeline's two ends.

    With full recompute the logits are freed before the first layer is recomputed. A pipeline keeps most in its first
    stage and has its logits in the last, where one micro-batch of its own layers is in flight.
    """
    kept = kept_term(shape, train, tokens)
    logits = logits_term(shape, train, tokens, with_grads=True)
    working = working_term(shape, train, tokens, with_grads=True)
    first = [kept, working] if train.recompute == "full" else [kept]
    last = [kept.scaled(1 / train.pipeline), logits]
    return max(first, last, key=lambda terms: sum(term.mid for term in terms))


def _sync(
    shape: ModelShape, train: TrainLayout, rollout: RolloutLayout, shared: RolloutLayout | None, capacity_bytes: float
) -> tuple[Term, ...]:
    optimizer = [optimizer_term(shape, train)] if train.optimizer is Place.DEVICE else []
    if shared is None:
        engine: list[Term] = []
    elif shared.sleeps:
        engine = [engine_weights(shape, shared), graphs_term(shared), context_term("engine's context")]
    else:
        engine = [*_around(shape, shared, capacity_bytes, with_context=False)]
    weights = () if train.weights is Place.HOST else (weight_term(shape, train),)
    return _present([*weights, *optimizer, _flight(shape, rollout), *engine, context_term("trainer's context")])


def _flight(shape: ModelShape, rollout: RolloutLayout) -> Term:
    bucket = rollout.sync_bucket_bytes
    table = largest_table_bytes(parameters(shape)) if bucket is None else bucket
    source = "one tensor (or bucket), sent and received: verl's `nccl_checkpoint_engine.py` keeps two"
    return Term(name="tensors in flight", low=table, mid=2 * table, high=2 * table, source=source)


def _weights(shape: ModelShape, train: TrainLayout, *, with_grads: bool) -> list[Term]:
    stored = [] if train.weights is Place.HOST else [weight_term(shape, train)]
    return [*stored, adapter_term(shape, train), gathered_term(shape, train, with_grads=with_grads)]


def _reference(shape: ModelShape, train: TrainLayout, *, is_used: bool) -> list[Term]:
    """A reference on the host passes through in pieces, or is there while it is used."""
    here = train.reference is Place.DEVICE or (is_used and train.reference is Place.IDLE_HOST)
    return [*([reference_term(shape, train)] if here else []), frozen_term(shape, train)]


def _around(
    shape: ModelShape, engine: RolloutLayout | None, capacity_bytes: float, *, with_context: bool = True
) -> list[Term]:
    """What else is on the device while the trainer works: its context, and an engine asleep or not."""
    context = [context_term("trainer's context")] if with_context else []
    if engine is None:
        return context
    if engine.sleeps:
        return [*context, graphs_term(engine), context_term("engine's context")]
    budget = share_bytes(engine, capacity_bytes, 0.0)
    return [*context, exact("engine's share", budget, SHARE_SOURCE), graphs_term(engine)]


def _fragmentation(moving: Sequence[Term]) -> Term:
    size = sum(term.mid for term in moving)
    low, mid, high = (frac * size for frac in FRAGMENTED_FRAC)
    return Term(name="fragmentation", low=low, mid=mid, high=high, source="arXiv 2401.08156 (GMLake)")


def _present(terms: Sequence[Term]) -> tuple[Term, ...]:
    return tuple(term for term in terms if term.high > 0)
