"""A micro-batch of nothing in particular: what is run once before a compiled trainer's first step.

Only sizes matter to the compiler, and only that they are not all the same.

Shape letters: N positions, C completion tokens.
"""

import torch

from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.inputs import MicroInputs
from steptune.engine.micro_batch import Run
from steptune.engine.recur import RunsRecur

Runs = tuple[Run, ...]

WARM_UP_RUNS: tuple[Runs, ...] = (
    (Run(width=9, num_rows=3),),
    (Run(width=17, num_rows=2), Run(width=11, num_rows=3)),
    (Run(width=21, num_rows=16), Run(width=18, num_rows=24)),
)
"""Runs of the micro-batches: 27, 67 and 768 positions. The last one is as large as a real one: after the two others
alone a hybrid compiled two more graphs in its first step, because inductor had bounded them by 512 and 682 positions
(2026-11-30)."""


def made_up_inputs(runs: Runs, device: torch.device) -> MicroInputs:
    """Return a micro-batch of equal tokens whose every position but a row's last predicts the next."""
    width_R = torch.tensor([run.width for run in runs for _ in range(run.num_rows)])
    positions_N = torch.cat([torch.arange(int(width)) for width in width_R])
    predict_C = (positions_N[1:] > 0).nonzero()[:, 0]
    target_C = torch.zeros_like(predict_C)
    return MicroInputs(
        tokens_N=torch.zeros_like(positions_N).to(device),
        positions_N=positions_N.to(device),
        context=Context(attend=attend_runs(runs, device=device), recur=RunsRecur(runs, device)),
        predict_C=predict_C.to(device),
        target_C=target_C.to(device),
        row_C=target_C.to(device),
        flat_C=predict_C.to(device),
    )
