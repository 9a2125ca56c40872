"""Carries out the orders of `offline`. Needs torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
from pydantic import TypeAdapter

from steptune.core.errors import ModelError, explain
from steptune.core.framework import ParityOutput
from steptune.core.knob import KnobValue
from steptune.core.profile import START_UP, CostCurve
from steptune.core.work import IDLE_THREADS, SLEEPING
from steptune.engine.damping import Damping
from steptune.engine.knob_checks import asks_for_ranks, asks_for_replicas, replica_numbers
from steptune.engine.knobs import DType, EngineKnobs, rollout_formats
from steptune.engine.one_sided import replay_side
from steptune.engine.orders import FindOrder, OfflineOrder, ProbeOrder, ReplayOrder, SideOrder, StartOrder
from steptune.engine.parity import replay, tensor_distances, whole_distance
from steptune.engine.probe import PROBE_BUDGET_S, probe_trainer
from steptune.engine.probe_handover import probe_handover
from steptune.engine.probe_ranks import probe_ranks
from steptune.engine.probe_replicas import probe_replicas
from steptune.engine.probe_rollout import probe_rollout
from steptune.engine.sft import load_or_train

COSTS: TypeAdapter[list[CostCurve]] = TypeAdapter(list[CostCurve])
OUTPUTS: TypeAdapter[list[ParityOutput]] = TypeAdapter(list[ParityOutput])
TRAIN_FORMATS: tuple[DType, ...] = ("fp32", "bf16")
ASLEEP_FRAC = 0.4
"""Part of the trainer's probe budget for threads that sleep: half the settings, and curves tell of each other."""

Format = TypeVar("Format", bound=str)


def carry_out(order: OfflineOrder) -> str:
    """Return the order's result as text."""
    match order:
        case FindOrder():
            return _found(order)
        case StartOrder():
            return str(load_or_train(order.job, Path(order.cache_dir)))
        case ProbeOrder():
            return COSTS.dump_json(probe_asleep(order) if order.is_asleep else probe(order)).decode()
        case ReplayOrder():
            return OUTPUTS.dump_json(replay_all(order)).decode()
        case SideOrder():
            start = torch.load(order.start_path, weights_only=True)
            return replay_side(order.job, order.wanted, start, Path(order.folder)).model_dump_json()


def _found(order: FindOrder) -> str:
    try:
        from steptune.engine.hf.find import find_model
    except ImportError as error:
        raise ModelError(
            explain(
                "a model folder needs the package `safetensors`",
                got=error,
                allowed="safetensors 0.5 or newer",
                hint="`pip install safetensors`, or the extra `engine` of this project",
            )
        ) from error
    return find_model(order.model, Path(order.cache_dir)).model_dump_json()


def probe(order: ProbeOrder) -> list[CostCurve]:
    """Measure every primitive under every setting that changes its cost, but for those that the owner has pinned."""
    threads, pin = range(1, order.job.devices.num_cores + 1), order.job.knobs.pin
    rollout = _options(pin, "rollout", threads, rollout_formats(order.job))
    folder, trained = Path(order.out_path).parent, _options(pin, "train", threads, TRAIN_FORMATS)
    ranked = probe_ranks(order.job, folder, trained[1]) if asks_for_ranks(order.job) else []
    numbers = [num for num in replica_numbers(order.job) if num > 1] if asks_for_replicas(order.job) else []
    return [
        *probe_rollout(order.job, *rollout),
        *probe_trainer(order.job, *trained, budget_s=order.trainer_budget_s or PROBE_BUDGET_S),
        *probe_handover(order.job, *rollout),
        *ranked,
        *probe_replicas(order.job, folder, numbers, *rollout),
    ]


def probe_asleep(order: ProbeOrder) -> list[CostCurve]:
    """Measure again what several threads take, in a process whose threads sleep when idle."""
    job, pin = order.job, order.job.knobs.pin
    several = range(2, job.devices.num_cores + 1)
    budget_s = ASLEEP_FRAC * (order.trainer_budget_s or PROBE_BUDGET_S)
    curves: list[CostCurve] = []
    if pin.get("rollout_threads") != 1:
        rollout = _options(pin, "rollout", several, rollout_formats(job))
        loads = [curve for curve in probe_handover(job, *rollout) if "rollout_threads" in curve.when]
        curves += [*probe_rollout(job, *rollout), *loads]
    if pin.get("train_threads") != 1:
        curves += probe_trainer(job, *_options(pin, "train", several, TRAIN_FORMATS), budget_s=budget_s)
    asleep = ((curve, {**curve.when, IDLE_THREADS: SLEEPING}) for curve in curves if curve.name != START_UP)
    return [curve.model_copy(update={"when": when}) for curve, when in asleep]


def _options(
    pin: dict[str, KnobValue], side: str, threads: Sequence[int], formats: Sequence[Format]
) -> tuple[list[int], list[Format]]:
    """Return the numbers of threads and the number formats that a side may run under."""
    pinned = pin.get(f"{side}_threads")
    dtypes = [name for name in formats if pin.get(f"{side}_dtype", name) == name]
    return [n for n in threads if n == pinned] or list(threads), dtypes


def replay_all(order: ReplayOrder) -> list[ParityOutput]:
    """Replay every input in float32 from the SFT start, and measure its distance to the first.

    Float32 whatever the settings say: parity is about the mathematics of layout, recomputation and
    normalisation; a number format owes other proofs.
    """
    start = torch.load(order.start_path, weights_only=True)
    folder = Path(order.folder)
    outputs, damping = list[ParityOutput](), Damping()
    for number, item in enumerate(order.inputs):
        exact = EngineKnobs.model_validate(item.settings).model_copy(update={"train_dtype": "fp32"})
        same = item.model_copy(update={"settings": exact.model_dump()})
        outputs.append(replay(order.job, same, start, folder / f"params-{number}.pt", damping))
    distances = [tensor_distances(outputs[0], output) for output in outputs]
    for output in outputs:
        Path(output.params_path).unlink()
    return [
        output.model_copy(update={"distance_to_first": whole_distance(apart), "distance_by_tensor": apart})
        for output, apart in zip(outputs, distances, strict=True)
    ]
