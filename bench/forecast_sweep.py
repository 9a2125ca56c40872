"""A ranked sweep of 100,000 candidates on one core, in CPU seconds, and whether it is linear.

`python bench/forecast_sweep.py [--quick]`. An invented job of 256 rollouts a step; spaces of rising size over replicas,
routing, row limits, ranks, balance, micro-batches and ten ways to meet. Prints CPU seconds by size; writes
`bench/results/forecast_sweep.json` unless quick. No wall clock: a neighbour on this machine is not the sweep's doing.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.cluster.parameters import StepParameters
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.sides import Sides
from steptune.forecast.cluster.sweep import Space, sweep
from steptune.forecast.cluster.sync import SyncCosts
from steptune.forecast.cluster.train_side import TrainCosts, TrainKnobs
from steptune.forecast.cluster.work import GroupShape, RowShape, Work

QUEUES = (
    QueueKnobs(),
    QueueKnobs(schedule="one_step_off"),
    *(QueueKnobs(schedule="async", max_lag=lag) for lag in (0, 1, 2, 4)),
    *(QueueKnobs(schedule="async", max_lag=lag, consume="first_done") for lag in (1, 2, 3, 4)),
)


def job(num_steps: int) -> Sides:
    """Return 32 groups of 8 rollouts a step with a long tail, and prices of a believable shape."""
    draw = random.Random(1)

    def group() -> GroupShape:
        rows = tuple(RowShape(tokens=max(8, min(1024, round(96 * draw.lognormvariate(0, 0.9))))) for _ in range(8))
        return GroupShape(prompt=64, rows=rows, predicted_tokens=float(sum(r.tokens for r in rows)))

    work = Work(steps=tuple(tuple(group() for _ in range(32)) for _ in range(num_steps)), max_completion=1024)
    parameters = StepParameters(
        rollout=RolloutCosts(decode=DecodeCurve(rows=(1, 64), seconds=(0.01, 0.016)), prefill_per_token_s=1e-5),
        train=TrainCosts(per_token_s=4e-4, per_micro_batch_s=0.02, per_update_s=0.05),
        sync=SyncCosts(pause_s=0.2),
    )
    return Sides(parameters=parameters, work=work)


def space(num_splits: int) -> Space:
    """Return 10 x 12 x 4 candidates per pair of side sizes."""
    sizes = range(1, num_splits + 1)
    return Space(
        rollouts=tuple(
            RolloutKnobs(num_replicas=n, max_rows=rows, routing=routing)
            for n in sizes
            for rows in (None, 8, 16, 64)
            for routing in ("round_robin", "least_loaded", "longest_first")
        ),
        trains=tuple(
            TrainKnobs(num_ranks=n, balance=balance, micro_batch_tokens=budget)
            for n in sizes
            for balance in ("rows", "tokens")
            for budget in (2048, 8192)
        ),
        queues=QUEUES,
    )


def main() -> int:
    """Sweep spaces of three sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small spaces, nothing written")
    is_quick = parser.parse_args().quick
    rows: list[dict[str, object]] = []
    for num_splits in (3, 5) if is_quick else (7, 10, 15):
        start_s = time.process_time()
        found = sweep(job(4), space(num_splits))
        rows.append(
            {
                "candidates": len(found.ranked),
                "cpu_s": round(time.process_time() - start_s, 2),
                "simulated": found.num_simulated,
                "is_proven": found.is_proven,
                "best": str(found.ranked[0].cluster.queue),
            }
        )
        print(rows[-1])
    if not is_quick:
        text = json.dumps({"rows": rows, "python": sys.version.split()[0]}, indent=2)
        (Path(__file__).resolve().parent / "results" / "forecast_sweep.json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
