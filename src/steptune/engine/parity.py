"""Update parity: recorded batches replayed through a trainer, to see what a knob does to the weights.

::

    capturing run --save_batch--> folder/batch_0000.pt ...
    same start weights + the same batches --replay(settings)--> parameters after the last update

Two configurations agree if their parameters are no further apart than the baseline's own rounding band: the baseline
replayed with its rows shuffled. The surprise: the optimizer is not the run's own to the last constant. Its epsilon is
raised (see `damping`), or rounding of one gradient that is nearly 0 would decide over the distance.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steptune.core.errors import TrialError, explain
from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import JobSpec
from steptune.engine.damping import Damping
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.new_model import new_model
from steptune.engine.plan import update_ranges
from steptune.engine.threads import torch_threads
from steptune.engine.trainer import Trainer
from steptune.engine.types import PromptBatch, RolloutBatch, ScoredBatch
from steptune.envs.vocabulary import vocabulary_of

PROBE_BATCH_TOKENS = 4096
"""Positions per forward of the probe pass; it changes nothing but speed."""


def save_batch(folder: Path, number: int, batch: ScoredBatch) -> None:
    """Write one batch that a run is about to train on."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(asdict(batch), folder / f"batch_{number:04d}.pt")


def load_batches(folder: Path) -> list[ScoredBatch]:
    """Return the batches of a capturing run, in training order.

    Raises:
        TrialError: the folder holds none.
    """
    paths = sorted(folder.glob("batch_*.pt"))
    if not paths:
        raise TrialError(
            explain(
                f"`{folder}` holds no captured batch",
                got="0 files",
                allowed="batch_0000.pt and on",
                hint="launch the run with `capture_batches` above 0 and let it take as many steps",
            )
        )
    return [_batch(torch.load(path, weights_only=True)) for path in paths]


def replay(
    job: JobSpec, parity: ParityInput, start: Mapping[str, Tensor], params_path: Path, damping: Damping | None = None
) -> ParityOutput:
    """Train from ``start`` on every captured batch under ``parity.settings`` and write the parameters.

    ``start`` must be the weights the capturing run started from (the SFT start); it is also the reference of
    a KL term. Probe log-probs are those of the first batch's completions, always computed in float32.
    Replays that are to be compared share one ``damping``, the baseline's first; None updates just as the run did.

    Raises:
        TrialError: nothing was captured, or a gradient is not finite.
        JobError: the settings do not fit the algorithm.
    """
    batches = load_batches(Path(parity.batches_dir))
    knobs = EngineKnobs.model_validate(parity.settings)
    trainer = Trainer(
        _model(job, start),
        job.algorithm,
        knobs,
        vocabulary_of(job).pad_id,
        _model(job, start) if job.algorithm.kl_coef > 0 else None,
        folder=params_path.parent,
    )
    if damping is not None:
        damping.put_on(trainer.optimizer)
    recorder, grad_norms = Recorder(), list[float]()
    with closing(trainer), torch_threads(knobs.train_threads):
        for number, batch in enumerate(batches):
            if parity.shuffle_seed is not None:
                batch = shuffled(batch, job, torch.Generator().manual_seed(1000 * parity.shuffle_seed + number))
            stats = trainer.update(trainer.prepare(batch, recorder), weights_version=0, recorder=recorder)
            grad_norms += stats.grad_norms
        trainer.configure(knobs.model_copy(update={"train_dtype": "fp32"}))
        probe_BT = trainer.logprobs(batches[0].rollout, PROBE_BATCH_TOKENS)
    end = trainer.model.state_dict()
    torch.save(end, params_path)
    return ParityOutput(
        params_path=str(params_path),
        probe_logprobs=tuple(probe_BT[batches[0].rollout.mask_BT].tolist()),
        grad_norms=tuple(grad_norms),
        param_delta_norm=_distance(end, start),
    )


def param_distance(a: ParityOutput, b: ParityOutput) -> float:
    """Return ``||a - b|| / ||change of a||`` over all parameters; NaN where a has not moved or is broken."""
    return whole_distance(tensor_distances(a, b))


def tensor_distances(a: ParityOutput, b: ParityOutput) -> dict[str, float]:
    """Return ``||a - b|| / ||change of a||``, the numerator of every tensor; NaN where a has not moved or is broken."""
    ours, theirs = (torch.load(output.params_path, weights_only=True) for output in (a, b))
    return {name: _over(_norm(ours[name], theirs[name]), a.param_delta_norm) for name in ours}


def whole_distance(by_tensor: Mapping[str, float]) -> float:
    """Return the distance over all parameters of `tensor_distances`."""
    return math.sqrt(math.fsum(each**2 for each in by_tensor.values()))


def shuffled(batch: ScoredBatch, job: JobSpec, generator: torch.Generator) -> ScoredBatch:
    """Return the batch with its rows in another order, each still in its own optimizer update.

    Advantages are already computed, so groups need not stay together.
    """
    algorithm = job.algorithm
    ranges = update_ranges(
        batch.advantage_B.shape[0], group_size=algorithm.group_size, num_updates=algorithm.num_updates
    )
    order_B = torch.cat([rows.start + torch.randperm(len(rows), generator=generator) for rows in ranges])
    return _batch(_map_tensors(asdict(batch), lambda rows: rows[order_B]))


def _model(job: JobSpec, state: Mapping[str, Tensor]) -> Transformer:
    model = new_model(job)
    model.load_state_dict(dict(state))
    return model


def _distance(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
    """L2 norm of the difference of all tensors, in float64."""
    return whole_distance({name: _norm(a[name], b[name]) for name in a})


def _norm(a: Tensor, b: Tensor) -> float:
    """L2 norm of the difference, in float64."""
    return math.sqrt(float((a.double() - b.double()).square().sum()))


def _over(distance: float, moved: float) -> float:
    return distance / moved if moved else math.nan


def _batch(fields: dict[str, Any]) -> ScoredBatch:
    rollout: dict[str, Any] = {**fields["rollout"]}
    rollout["prompts"] = PromptBatch(**rollout["prompts"])
    scored: dict[str, Any] = {**fields, "rollout": RolloutBatch(**rollout)}
    return ScoredBatch(**scored)


def _map_tensors(fields: dict[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    mapped = dict[str, Any]()
    for name, value in fields.items():
        if isinstance(value, Tensor):
            mapped[name] = change(value)
        else:
            mapped[name] = _map_tensors(value, change) if isinstance(value, dict) else value
    return mapped
