"""What the rollout costs with several replicas at work: the evidence without which nobody forecasts them.

Each replica gets the same number of rows, and a point holds what the slowest one took, beside the others on the same
memory bus. Measured only where the owner asks for replicas (`knob_checks.asks_for_replicas`): a price cannot be derived
from one replica's, because how much processes slow each other down is the machine's secret.
"""

import itertools
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import torch
from torch import nn

from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.profile import CostCurve, CurvePoint
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs, RolloutDType
from steptune.engine.new_model import new_model
from steptune.engine.probe_handover import once, probed_rows, score_rows, timed
from steptune.engine.probe_rollout import PROBE_LENGTH, probe_prompts, repeated, row_counts
from steptune.engine.produce import rollout_engine
from steptune.engine.replicas.replica_set import ReplicaSet
from steptune.engine.replicas.start import start_replicas
from steptune.engine.replicas.wire import ReplicaEnd, ReplicaWire, StartReplica, start_process
from steptune.engine.threads import torch_threads
from steptune.engine.types import RolloutTrace
from steptune.engine.weights import WeightChannel, weight_channel
from steptune.engine.worker import worker_spec


def probe_replicas(
    job: JobSpec,
    folder: Path,
    numbers: Sequence[int],
    thread_options: Sequence[int],
    dtype_options: Sequence[RolloutDType],
    *,
    start: StartReplica[ReplicaEnd] = start_process,
) -> list[CostCurve]:
    """Return what rollout and hand-over cost for every number of replicas that the job's cores have threads for.

    `decode_replicated`: seconds of an iteration by a replica's rows. `prefill_replicated`: seconds by its positions.
    `handover_replicated` and `load_replicated`: all replicas take new weights, of a synchronous step and beside one.
    ``folder`` takes the replicas' logs.
    """
    curves: list[CostCurve] = []
    for num, threads in itertools.product(numbers, thread_options):
        if num * threads > job.devices.num_cores:
            continue
        for dtype in dtype_options:
            knobs = EngineKnobs(rollout_replicas=num, rollout_threads=threads, rollout_dtype=dtype)
            with torch_threads(threads), _replicas(job, knobs, folder, start) as (replicas, model, channel):
                curves += _rollout_curves(job, knobs, replicas)
                curves += _handover_curves(job, knobs, replicas, model, channel)
    return curves


@contextmanager
def _replicas(
    job: JobSpec, knobs: EngineKnobs, folder: Path, start: StartReplica[ReplicaEnd]
) -> Generator[tuple[ReplicaSet, nn.Module, WeightChannel]]:
    """Hold replicas with weights; yield them, the trainer's model and the channel between."""
    model = new_model(job)
    channel = weight_channel(knobs.handover, model, folder)
    ends = start_replicas(worker_spec(job, knobs, 0, None, folder), channel, start)
    replicas = ReplicaSet(rollout_engine(job, knobs), [ReplicaWire(end) for end in ends], Recorder())
    with closing(replicas):
        replicas.load(model.state_dict(), 0)
        yield replicas, model, channel


def _rollout_curves(job: JobSpec, knobs: EngineKnobs, replicas: ReplicaSet) -> list[CostCurve]:
    num = knobs.rollout_replicas
    decode: list[CurvePoint] = []
    prefill: list[CurvePoint] = []
    for rows in row_counts(job.algorithm.rollouts_per_step // num):
        traces = repeated(lambda n=rows * num: slowest(_parts(job, replicas, n)))
        seconds = median(t.timed_s[1] / t.decode_iterations for t in traces)
        decode.append(CurvePoint(x=rows, seconds=seconds))
        prefill.append(CurvePoint(x=traces[0].prefill_tokens, seconds=median(t.timed_s[0] for t in traces)))
    when = _when(knobs)
    return [
        CostCurve(name="decode_replicated", when=when, unit="rows", points=tuple(decode)),
        CostCurve(name="prefill_replicated", when=when, unit="tokens", points=tuple(prefill)),
    ]


def slowest(traces: Sequence[RolloutTrace]) -> RolloutTrace:
    """Return the trace of the replica that took longest; all had the same to do."""
    return max(traces, key=lambda trace: sum(trace.timed_s))


def _parts(job: JobSpec, replicas: ReplicaSet, rows: int) -> tuple[RolloutTrace, ...]:
    """Let every replica make equally many rows; return what each did."""
    lengths_B = torch.full((rows,), min(PROBE_LENGTH, job.algorithm.max_completion_len))
    replicas.generate(
        probe_prompts(job, rows),
        max_completion_len=job.algorithm.max_completion_len,
        temperature=job.algorithm.temperature,
        seed=0,
        forced_lengths_B=lengths_B,
    )
    return replicas.traces


def _handover_curves(
    job: JobSpec, knobs: EngineKnobs, replicas: ReplicaSet, model: nn.Module, channel: WeightChannel
) -> list[CostCurve]:
    """Return what it takes to hand weights to all replicas by copy: of a synchronous step, and of a worker's part."""
    state, rows = model.state_dict(), probed_rows(job, replicas.own)
    write_s = timed(lambda: channel.write(state, 0))
    own_s = timed(lambda: replicas.load(state, 0))  # a trainer's process has its own weights at hand
    load_s = timed(lambda: replicas.load(channel.read().state, 0))
    score_s = timed(lambda: score_rows(replicas.own, rows, job))
    when = {"handover": knobs.handover, **_when(knobs)}
    return [once("handover_replicated", when, write_s + own_s), once("load_replicated", when, load_s + score_s)]


def _when(knobs: EngineKnobs) -> dict[str, KnobValue]:
    return {
        "rollout_threads": knobs.rollout_threads,
        "rollout_dtype": knobs.rollout_dtype,
        "rollout_replicas": knobs.rollout_replicas,
    }
