"""A virtual cluster of 16 devices: which setting wins in which regime, and how far the virtual clock is from real ones.

`python bench/virtual_regimes.py [--quick]` writes `bench/results/virtual_regimes.json` in about two minutes. Prices are
measured on the example's model in the same run, in CPU seconds of one core; every step time in the tables is *virtual*.
Checks against reality come first: the event core against steps carried out device by device (4 + 4 devices), and the
virtual 1 + 1 one-step-off step, priced and carried out, against the engine's own two processes on this machine, by wall
clock and by the CPU seconds of the busier one (which neighbours bend less). The surprise: a regime's winner is a fact
about these prices; nothing but the mechanism carries over (docs/design/transfer.md).
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace as vary
from multiprocessing import active_children
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "vs_trl")]

from same_work import LARGE, forced_lengths  # noqa: E402

from splits import job, knobs  # noqa: E402
from steptune.core.profile import SampledLengths  # noqa: E402
from steptune.engine.loop import Loop, LoopSpec  # noqa: E402
from steptune.engine.model import Transformer, build_model  # noqa: E402
from steptune.engine.produce import TOKENIZER  # noqa: E402
from steptune.engine.quota.duty import LiveTarget  # noqa: E402
from steptune.engine.virtual.cluster import simulate  # noqa: E402
from steptune.engine.virtual.costs import MeasuredCosts  # noqa: E402
from steptune.engine.virtual.executed import ExecutedCluster  # noqa: E402
from steptune.engine.virtual.measure import measure_costs, weight_bytes  # noqa: E402
from steptune.engine.virtual.outcome import NOTE, VirtualRun  # noqa: E402
from steptune.engine.virtual.spec import ClusterSpec, ring_s, transfer_s  # noqa: E402
from steptune.engine.virtual.work import GroupWork, RowWork, ToolCall, Workload  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

JOB = job()
KNOBS = knobs(None)
GROUPS, GROUP_SIZE = 32, 8
LIMIT = 512
"""Longest completion of every regime, in tokens."""
LINK_BYTES_PER_S = 2e9
"""Link between virtual devices: 4 MB of weights take 2 ms, about as long as one decode iteration."""
PREDICTION_SPREAD = 0.3
"""Lognormal error of predicted lengths."""
TIE_FRAC = 0.01
"""Difference of two virtual steps that nobody should act on: prices are measured to a few per cent."""
NUM_WARMUP = 6
"""Steps in which an asynchronous pipeline fills up."""


def lengths_workload(median: float, spread: float, num_steps: int, tools: tuple[ToolCall, ...] = ()) -> Workload:
    """Return lognormal lengths; siblings of a group resemble each other, as they do in practice."""
    draw = random.Random(0)

    def group() -> GroupWork:
        own = draw.lognormvariate(0, spread / 2)
        drawn = [median * own * draw.lognormvariate(0, spread * 0.87) for _ in range(GROUP_SIZE)]
        sizes = [min(LIMIT, max(8, round(x))) for x in drawn]
        predicted = sum(sizes) * draw.lognormvariate(0, PREDICTION_SPREAD)
        return GroupWork(prompt=16, rows=tuple(RowWork(completion=n, tools=tools) for n in sizes), predicted=predicted)

    return Workload(steps=[[group() for _ in range(GROUPS)] for _ in range(num_steps)], max_completion=LIMIT)


def settings() -> dict[str, ClusterSpec]:
    """Return what is tried in every regime: 16 devices each."""
    num_bytes = weight_bytes(JOB)

    def split(trainers: int, **more: object) -> ClusterSpec:
        made = ClusterSpec(
            num_trainers=trainers,
            num_replicas=16 - trainers,
            sync_s=transfer_s(num_bytes, LINK_BYTES_PER_S),
            allreduce_s=ring_s(num_bytes, trainers, LINK_BYTES_PER_S),
            balance="tokens",
        )
        return vary(made, **more)  # type: ignore[arg-type]

    shared = ClusterSpec(
        num_trainers=16,
        num_replicas=16,
        is_colocated=True,
        allreduce_s=ring_s(num_bytes, 16, LINK_BYTES_PER_S),
        balance="tokens",
    )
    off = split(4, schedule="one_step_off")
    ahead = split(4, schedule="async", max_lag=2, routing="least_loaded")
    return {
        "sync 16 shared": shared,
        "sync 16 shared, longest first": vary(shared, routing="longest_first"),
        "one step off 4 + 12": off,
        "one step off 8 + 8": split(8, schedule="one_step_off"),
        "one step off 4 + 12, longest first": vary(off, routing="longest_first"),
        "async lag 2, 4 + 12": ahead,
        "async lag 2, 8 + 8": split(8, schedule="async", max_lag=2, routing="least_loaded"),
        "async lag 4, 4 + 12, first done": vary(ahead, max_lag=4, consume="first_done"),
        "async lag 2, 4 + 12, reserve cache": vary(ahead, over_budget="reserve"),
        "async lag 2, 4 + 12, 8 rows at once": vary(ahead, max_rows=8),
        "async lag 2, 6 + 10": split(6, schedule="async", max_lag=2, routing="least_loaded"),
    }


def regimes(num_steps: int) -> dict[str, tuple[Workload, dict[str, object]]]:
    """Return each regime's work, and what of the cluster it sets."""
    usual = lengths_workload(64, 0.6, num_steps)
    tools = (ToolCall(at_token=3, seconds=0.4), ToolCall(at_token=6, seconds=0.4))
    return {
        "short, nearly equal lengths": (lengths_workload(24, 0.05, num_steps), {}),
        "medium lengths": (lengths_workload(64, 0.3, num_steps), {}),
        "long tail": (lengths_workload(64, 1.3, num_steps), {}),
        "slow weights": (usual, {"sync_s": 1.5}),
        "straggler": (usual, {"replica_slowdown": (8.0,)}),
        "tight cache": (lengths_workload(128, 0.6, num_steps), {"kv_tokens": 640}),
        "tool waits": (lengths_workload(64, 0.6, num_steps, tools), {"num_tool_workers": 64}),
    }


def row(name: str, run: VirtualRun) -> dict[str, object]:
    """Return a setting's line of a table."""
    step = run.step_time(NUM_WARMUP)
    counted = run.steps[NUM_WARMUP:]
    roles = {device.role for device in counted[0].devices}
    return {
        "setting": name,
        "virtual_step_s": round(step.value, 4),
        "shortest": round(step.low or 0.0, 4),
        "longest": round(step.high or 0.0, 4),
        "busy_frac": {str(r): round(statistics.fmean(s.busy_frac(r) for s in counted), 3) for r in sorted(roles)},
        "max_lag": run.max_lag,
        "dropped_frac": round(run.num_dropped / run.num_generated, 4),
        "preempted_rows": run.num_preempted,
    }


def tables(costs: MeasuredCosts, num_steps: int) -> list[dict[str, object]]:
    """Return one table per regime, fastest setting first."""
    found: list[dict[str, object]] = []
    for regime, (work, facts) in regimes(num_steps).items():
        rows: list[dict[str, object]] = []
        for name, spec in settings().items():
            mine = {k: v for k, v in facts.items() if not (k == "sync_s" and spec.is_colocated)}
            run = simulate(vary(spec, **mine), work, costs, num_steps=num_steps)  # type: ignore[arg-type]
            rows.append(row(name, run))
        rows.sort(key=lambda r: float(str(r["virtual_step_s"])))
        found.append({"regime": regime, **winners(rows), "rows": rows})
    return found


def winners(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return the fastest setting, what it leads by, who ties with it, and the fastest at each staleness allowed."""
    by_time = sorted(rows, key=lambda r: float(str(r["virtual_step_s"])))
    seconds = [float(str(r["virtual_step_s"])) for r in by_time]
    by_lag = {
        f"winner_at_lag_{bound}": next((r["setting"] for r in by_time if int(str(r["max_lag"])) <= bound), None)
        for bound in (0, 1)
    }
    tied = [r["setting"] for r, s in zip(by_time[1:], seconds[1:], strict=True) if s <= seconds[0] * (1 + TIE_FRAC)]
    lead = next((s / seconds[0] for s in seconds if s > seconds[0] * (1 + TIE_FRAC)), None)
    return {"winner": by_time[0]["setting"], "tied_with": tied, "lead": lead and round(lead, 3), **by_lag}


def fresh_model() -> Transformer:
    """Return the model every check starts from."""
    return build_model(JOB.model, TOKENIZER.vocab_size, seed=0)


def forced_workload(lengths: SampledLengths) -> Workload:
    """Return the work that the executed cluster does, for the event core."""
    size, per_step = JOB.algorithm.group_size, lengths.rollouts_per_step
    steps: list[list[GroupWork]] = []
    for start in range(0, len(lengths.completion), per_step):
        firsts = range(start, start + per_step, size)
        groups = [(lengths.prompt[f], lengths.completion[f : f + size]) for f in firsts]
        steps.append(
            [
                GroupWork(prompt=p, rows=tuple(RowWork(completion=n) for n in own), predicted=float(sum(own)))
                for p, own in groups
            ]
        )
    return Workload(steps=steps, max_completion=JOB.algorithm.max_completion_len)


def checks(costs: MeasuredCosts, num_steps: int) -> list[dict[str, object]]:
    """Return the virtual clock against what it stands for."""
    lengths = forced_lengths(JOB, LARGE.median_len)
    work = forced_workload(lengths)
    four = ClusterSpec(num_trainers=4, num_replicas=4, balance="tokens", micro_batch_tokens=1024)
    one = ClusterSpec(num_trainers=1, num_replicas=1, schedule="one_step_off", micro_batch_tokens=4096)
    wall_s, cpu_s = measured_step_s(lengths, num_steps)
    carried_out_s = executed_s(one, lengths, num_steps)
    return [
        check(
            "4 + 4 sync: event core against executed", core_s(four, work, costs), executed_s(four, lengths, num_steps)
        ),
        check("1 + 1 one step off: event core against wall clock", core_s(one, work, costs), wall_s),
        check("1 + 1 one step off: executed against wall clock", carried_out_s, wall_s),
        check("1 + 1 one step off: executed against the busier process's CPU", carried_out_s, cpu_s),
    ]


def check(what: str, virtual_s: float, against_s: float) -> dict[str, object]:
    """Return one comparison."""
    return {
        "check": what,
        "virtual_s": round(virtual_s, 4),
        "against_s": round(against_s, 4),
        "error": round(virtual_s / against_s - 1, 4),
    }


def core_s(spec: ClusterSpec, work: Workload, costs: MeasuredCosts) -> float:
    """Return the event core's step."""
    return simulate(spec, work, costs, num_steps=len(work.steps) + 2).step_time(2).value


def executed_s(spec: ClusterSpec, lengths: SampledLengths, num_steps: int) -> float:
    """Return the mean step of real work charged to the virtual clock; the first two steps warm up."""
    torch.set_num_threads(1)
    settings = KNOBS.model_copy(update={"micro_batch_tokens": spec.micro_batch_tokens})
    cluster = ExecutedCluster(spec, JOB, settings, fresh_model(), seed=1, forced=lengths)
    return statistics.fmean([cluster.step().virtual_s for _ in range(num_steps + 2)][2:])


def measured_step_s(lengths: SampledLengths, num_steps: int) -> tuple[float, float]:
    """Return the engine's own one-step-off step, two processes of one thread: wall clock, and CPU of the busier one.

    Neighbours on this machine lengthen the first and hardly the second.
    """
    model = fresh_model()
    with tempfile.TemporaryDirectory() as folder:
        spec = LoopSpec(job=JOB, knobs=KNOBS, seed=1, forced=lengths, capture_batches=0, folder=Path(folder))
        start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        loop = Loop(spec, model, start)
        sides = [LiveTarget(os.getpid()), *(LiveTarget(child.pid or 0) for child in active_children())]
        warm = [loop.step() for _ in range(2)]
        loop.settle()
        before_s = [side.cpu_s() for side in sides]
        seconds = [loop.step().step_time_s for _ in range(num_steps)]
        loop.settle()
        cpu_s = [side.cpu_s() - b for side, b in zip(sides, before_s, strict=True)]
        loop.close()
    assert len(warm) == len(sides) == 2, "a trainer and a rollout worker"
    return statistics.fmean(seconds), max(cpu_s) / num_steps


def main() -> int:
    """Check, simulate, print, save; exit 1 if fewer than four settings win a regime."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, nothing written")
    is_quick = parser.parse_args().quick
    load, start_s = os.getloadavg()[0], time.monotonic()
    with machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None):
        costs = measure_costs(JOB, KNOBS)
        compared = checks(costs, 2 if is_quick else 8)
    found = tables(costs, NUM_WARMUP + (2 if is_quick else 10))
    result = {
        "what": NOTE,
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "took_s": round(time.monotonic() - start_s),
        "costs": {"decode": costs.decode, "prefill": costs.prefill, "train": costs.train, "optimizer": costs.optimizer},
        "checks": compared,
        "num_winners": len({table["winner"] for table in found}),
        "regimes": found,
    }
    for line in compared:
        print(line)
    for table in found:
        print(f"\n{table['regime']}: {table['winner']}, {table['lead']}x the next; as fast: {table['tied_with']}")
        for line in table["rows"]:  # type: ignore[union-attr]
            print("  ", line)
    print(f"\n{result['num_winners']} settings win at least one of {len(found)} regimes; took {result['took_s']} s")
    if not is_quick:
        replace(HERE / "results" / "virtual_regimes.json", json.dumps(result, indent=2) + "\n")
    return 0 if int(str(result["num_winners"])) >= 4 else 1


if __name__ == "__main__":
    sys.exit(main())
