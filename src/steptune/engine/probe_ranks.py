"""What the trainer's primitives cost with two ranks at work: the evidence without which nobody forecasts two ranks.

Both ranks get one micro-batch each of about the same size, so a point holds what the slower one took, beside another on
the same memory bus. Measured only where the owner asks for ranks (`knob_checks.asks_for_ranks`): a price cannot be
derived from one rank's, because how much two processes slow each other down is the machine's secret.
"""

import itertools
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from steptune.core.job import JobSpec
from steptune.core.profile import CostCurve
from steptune.engine.events import Clock
from steptune.engine.knobs import DType
from steptune.engine.new_model import new_model
from steptune.engine.probe_batch import probe_algorithm
from steptune.engine.probe_train import (
    LOGPROB_KEYS,
    PASS,
    TRAIN_KEYS,
    measured,
    position_curve,
    settings_of,
    update_curve,
)
from steptune.engine.ranks.wire import StartRank, start_process
from steptune.engine.trainer import Trainer
from steptune.envs.vocabulary import vocabulary_of

NUM_RANKS = 2

SIZES = (256, 1024, 2560)
"""Positions of each rank's micro-batch; see `probe.SIZES`."""

BUDGET_S = 15.0
"""Wall seconds beyond which no second repetition begins; half of the trainer's other curves have one rank's threads."""

MAX_REPS = 3

TRAIN = ("train/plan", "train/forward", "train/backward", "train/rank_wait")
"""Children of `train` that grow with a micro-batch; the others are paid once an update."""

OPTIMIZER = ("train/order", "train/reduce", "train/optimizer")


def probe_ranks(
    job: JobSpec,
    folder: Path,
    dtype_options: Sequence[DType],
    *,
    budget_s: float = BUDGET_S,
    clock: Clock = time.perf_counter,
    start_rank: StartRank = start_process,
) -> list[CostCurve]:
    """Return curves `train_ranked`, `logprob_ranked` (seconds by positions of a rank) and `optimizer_ranked`.

    The last one is an update's order, sum of gradients, clipping and AdamW. ``folder`` takes the second rank's log.
    """
    threads = range(1, job.devices.num_cores // NUM_RANKS + 1)
    settings = settings_of(job, threads, dtype_options, (False, True), sizes=SIZES, num_ranks=NUM_RANKS)
    model, pad_id = new_model(job), vocabulary_of(job).pad_id
    trainer = Trainer(model, probe_algorithm(job), settings[0].knobs, pad_id, folder=folder, start_rank=start_rank)
    with closing(trainer):
        for setting in settings:
            measured(trainer, setting, 0, clock)  # not kept: the first call of a setting pays for its kernels' start
        stop_s = clock() + budget_s
        for rep, (size, setting) in itertools.product(range(MAX_REPS), itertools.product(range(len(SIZES)), settings)):
            if rep == 0 or clock() < stop_s:
                setting.samples[size].append(measured(trainer, setting, size, clock))
    return [
        *(position_curve("train_ranked", s, TRAIN_KEYS, TRAIN) for s in settings),
        *(position_curve("logprob_ranked", s, LOGPROB_KEYS, PASS) for s in settings if s.knobs.logprob_batch_tokens),
        *(update_curve("optimizer_ranked", settings, number, OPTIMIZER) for number in threads),
    ]
