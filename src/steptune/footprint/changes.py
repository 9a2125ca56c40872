"""Changes that free memory and train the same thing, from the cheapest to the dearest in step time.

None of them touches batch, group, lengths or mini-batches; sums are added in another order at most. A change that has
nothing to do in a layout gives None.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from steptune.footprint.layout import JobLayout, Place, RolloutLayout, TrainLayout

CHUNK_TOKENS = 1024
"""Tokens of one chunk of a fused loss: Liger's and verl's take a few hundred to a few thousand."""

LOWEST_SHARE = 0.3
"""Engines are rarely given less: TRL's colocated default."""

SHARE_STEP = 0.1


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One change: what it makes of a layout, and how that is said."""

    apply: Callable[[JobLayout], JobLayout | None]
    text: Callable[[JobLayout, JobLayout], str]


def _train(change: Callable[[TrainLayout], dict[str, object] | None]) -> Callable[[JobLayout], JobLayout | None]:
    def apply(job: JobLayout) -> JobLayout | None:
        update = change(job.train)
        return None if update is None else job.model_copy(update={"train": job.train.model_copy(update=update)})

    return apply


def _rollout(change: Callable[[RolloutLayout], dict[str, object] | None]) -> Callable[[JobLayout], JobLayout | None]:
    def apply(job: JobLayout) -> JobLayout | None:
        update = None if job.rollout is None or not job.is_colocated else change(job.rollout)
        if update is None or job.rollout is None:
            return None
        return job.model_copy(update={"rollout": job.rollout.model_copy(update=update)})

    return apply


def _fixed(text: str) -> Callable[[JobLayout, JobLayout], str]:
    return lambda _before, _after: text


def _sleep(rollout: RolloutLayout) -> dict[str, object] | None:
    return None if rollout.sleeps else {"sleeps": True}


def _chunk(train: TrainLayout) -> dict[str, object] | None:
    standing = train.micro_tokens if train.logits_tokens is None else train.logits_tokens
    return None if standing <= CHUNK_TOKENS else {"logits_tokens": CHUNK_TOKENS}


def _fewer_logprob_tokens(train: TrainLayout) -> dict[str, object] | None:
    now = train.micro_tokens if train.logprob_tokens is None else train.logprob_tokens
    return None if now <= train.longest else {"logprob_tokens": max(train.longest, now // 2)}


def _lower_share(rollout: RolloutLayout) -> dict[str, object] | None:
    lower = round(rollout.share - SHARE_STEP, 3)
    return {"share": lower} if lower >= LOWEST_SHARE else None


def _higher_share(rollout: RolloutLayout) -> dict[str, object] | None:
    higher = round(rollout.share + SHARE_STEP, 3)
    return {"share": higher} if higher <= 0.9 else None


def _one_sequence(train: TrainLayout) -> dict[str, object] | None:
    if train.micro_tokens <= train.longest:
        return None
    update: dict[str, object] = {"micro_tokens": train.longest}
    if train.logprob_tokens is None:
        update["logprob_tokens"] = train.micro_tokens
    return update


def _half(train: TrainLayout) -> dict[str, object] | None:
    half = max(train.longest, train.micro_tokens // 2)
    if half >= train.micro_tokens:
        return None
    return {"micro_tokens": half, "logprob_tokens": train.logprob_tokens or train.micro_tokens}


def _recompute(train: TrainLayout) -> dict[str, object] | None:
    return None if train.recompute == "full" else {"recompute": "full"}


def _idle_optimizer(train: TrainLayout) -> dict[str, object] | None:
    return {"optimizer": Place.IDLE_HOST} if train.optimizer is Place.DEVICE else None


def _idle_weights(train: TrainLayout) -> dict[str, object] | None:
    return {"weights": Place.IDLE_HOST} if train.weights is Place.DEVICE else None


def _inputs(train: TrainLayout) -> dict[str, object] | None:
    return None if train.offloads_inputs or train.recompute != "full" else {"offloads_inputs": True}


def _context(train: TrainLayout) -> dict[str, object] | None:
    return {"context": 2 * train.context} if _copies(train) >= 2 else None


def _shard(train: TrainLayout) -> dict[str, object] | None:
    if train.sharding == "full" and train.shard_ways is None:
        return None
    return {"sharding": "full", "shard_ways": None} if _copies(train) >= 2 else None


def _tensor(train: TrainLayout) -> dict[str, object] | None:
    if train.sharding == "full" and train.tensor == 1:  # most FSDP trainers have no tensor parallelism
        return None
    return {"tensor": 2 * train.tensor} if _copies(train) >= 2 and train.tensor < 8 else None


def _host_optimizer(train: TrainLayout) -> dict[str, object] | None:
    return None if train.optimizer is Place.HOST else {"optimizer": Place.HOST}


def _copies(train: TrainLayout) -> float:
    return train.num_devices / (train.tensor * train.pipeline * train.context)


def _share_text(before: JobLayout, after: JobLayout) -> str:
    assert before.rollout is not None
    assert after.rollout is not None
    return f"engine's share of the device {before.rollout.share:g} -> {after.rollout.share:g}"


def _micro_text(before: JobLayout, after: JobLayout) -> str:
    return f"tokens of a training micro-batch {before.train.micro_tokens:,} -> {after.train.micro_tokens:,}"


def _logprob_text(before: JobLayout, after: JobLayout) -> str:
    now = before.train.logprob_tokens or before.train.micro_tokens
    return f"tokens of a log-prob micro-batch {now:,} -> {after.train.logprob_tokens:,}"


CHANGES: tuple[Change, ...] = (
    Change(apply=_rollout(_sleep), text=_fixed("let the engine sleep while the trainer works")),
    Change(apply=_train(_chunk), text=_fixed(f"a fused or chunked loss: logits of {CHUNK_TOKENS:,} tokens at a time")),
    Change(apply=_train(_fewer_logprob_tokens), text=_logprob_text),
    Change(apply=_rollout(_higher_share), text=_share_text),
    Change(apply=_rollout(_lower_share), text=_share_text),
    Change(apply=_train(_half), text=_micro_text),
    Change(apply=_train(_one_sequence), text=_micro_text),
    Change(apply=_train(_idle_optimizer), text=_fixed("optimizer states on the host outside the update")),
    Change(apply=_train(_idle_weights), text=_fixed("the trainer's weights on the host during rollout")),
    Change(apply=_train(_recompute), text=_fixed("recompute whole layers in the backward pass")),
    Change(apply=_train(_inputs), text=_fixed("inputs of recomputed layers on the host")),
    Change(
        apply=_train(_shard), text=_fixed("weights, gradients and optimizer divided over all data-parallel devices")
    ),
    Change(
        apply=_train(_context),
        text=lambda b, a: f"one sequence over {a.train.context} devices instead of {b.train.context}",
    ),
    Change(apply=_train(_tensor), text=lambda b, a: f"tensor parallelism {b.train.tensor} -> {a.train.tensor}"),
    Change(apply=_train(_host_optimizer), text=_fixed("optimizer states and step on the host")),
)
"""Tried in this order."""
