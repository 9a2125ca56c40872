"""What a trial costs with a replay of its one side before it and without, and whether both decide the same.

`python bench/ladder.py` (about ten minutes on one core, any machine: the clock is virtual) writes
`bench/results/ladder.json`; `--quick` runs one seed and writes nothing. Every candidate is one lever of a drawn space
that touches one side of a synchronous step, tried on a fresh session by the tuner's own `try_one`: once by a framework
that can replay a side, once by one that cannot. Costs are virtual seconds of everything (start-ups, warm-up,
rehearsals, replays) in steps of the baseline. The surprise: *the same decision* has to be judged by the truth as well,
for two full trials of one candidate do not always agree either, so a second full trial with another seed is run beside.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "search"))

from search_arms import space_of  # noqa: E402
from search_instances import JOB, LAUNCH_NOISE, STEP_NOISE, session  # noqa: E402

from steptune.core.change import Change, Move  # noqa: E402
from steptune.core.decision import Outcome  # noqa: E402
from steptune.core.event import Screened  # noqa: E402
from steptune.core.phase import Role  # noqa: E402
from steptune.propose.make import make_change  # noqa: E402
from steptune.stats.bootstrap import bootstrap_interval  # noqa: E402
from steptune.store.files import replace as write_file  # noqa: E402
from steptune.testing.fake_framework import FakeFramework  # noqa: E402
from steptune.testing.fake_space import ROLLOUT_S, TRAIN_S, FakeKnob  # noqa: E402
from steptune.testing.search_spaces import SearchSpace, draw_space, misled  # noqa: E402
from steptune.tune.context import Context  # noqa: E402
from steptune.tune.search import try_one  # noqa: E402
from steptune.tune.search_state import search_state  # noqa: E402

NUM_SEEDS = 30
LEVERS_PER_SPACE = 4
"""One-sided levers drawn of each space."""
SPACES = ("rollout_bound", "deceptive", "nothing_helps", "small_gains")
"""Shapes of `testing.search_spaces` whose steps are synchronous."""
STEP_S = ROLLOUT_S + TRAIN_S
WORTH = 0.98
"""True ratio below which a change has a gain that a trial at this noise may find."""
REPLAYABLE = frozenset({Role.TRAINER, Role.ROLLOUT})
OTHER_SEED = 10_000
"""Added to the seed of the second full trial."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Where trials are run: ``Setting(start_up_steps=3, incumbent_waits=False, forecast_error=None)``."""

    start_up_steps: float
    incumbent_waits: bool
    """Whether the incumbent's run is up already, as a framework that rewinds has it."""
    forecast_error: float | None
    """Median error of a forecast; None: the levers were never priced (an ablation)."""


SETTINGS = {
    "ablation, start-up 3 steps, both arms launched": Setting(
        start_up_steps=3, incumbent_waits=False, forecast_error=None
    ),
    "ablation, start-up 20 steps, incumbent waits": Setting(
        start_up_steps=20, incumbent_waits=True, forecast_error=None
    ),
    "forecast error 10 %, start-up 3 steps, both arms launched": Setting(
        start_up_steps=3, incumbent_waits=False, forecast_error=0.1
    ),
    "forecast error 10 %, start-up 20 steps, incumbent waits": Setting(
        start_up_steps=20, incumbent_waits=True, forecast_error=0.1
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One candidate, tried three times."""

    shape: str
    seed: int
    lever: str
    true_ratio: float
    full_steps: float
    again_steps: float
    """The second full trial's."""
    ladder_steps: float
    full: str
    again: str
    ladder: str
    """Outcomes."""
    replays: int
    """1 where a replay was run."""


def candidates(shape: str, seed: int) -> list[tuple[str, object]]:
    """Return some levers of one drawn space that touch one side."""
    space = draw_space(shape, seed)
    every = [(k.name, value) for k in space.knobs if not k.across for value in list(k.factors)[1:]]
    return random.Random(f"levers {shape} {seed}").sample(every, min(LEVERS_PER_SPACE, len(every)))


def try_lever(
    shape: str, seed: int, lever: tuple[str, object], how: Setting, sides: frozenset[Role], noise_seed: int
) -> tuple[float, str, int]:
    """Return cost in steps, outcome and number of replays of one trial on a fresh session."""
    space = believed(draw_space(shape, seed), how.forecast_error)
    framework = FakeFramework(
        knob_table=space.knobs,
        pairs=space.pairs,
        noise=STEP_NOISE,
        launch_noise=LAUNCH_NOISE,
        seed=noise_seed,
        start_up_s=how.start_up_steps * STEP_S,
        sides=sides,
    )
    with session(framework, JOB, STEP_S) as context:
        if not how.incumbent_waits:
            context.runs.stop()
        before_s = framework.spent_s
        change = change_of(context, lever)
        try_one(context, space_of(context, change), 0, search_state(context.state, context.effects))
        outcome = context.state.ended[-1].outcome
        num_replays = sum(isinstance(event, Screened) for event in context.journal.events)
        return (framework.spent_s - before_s) / STEP_S, str(outcome), num_replays


def believed(space: SearchSpace, error: float | None) -> SearchSpace:
    """Return the space as the forecast sees it: off by ``error``, or without a price for any lever."""
    if error is not None:
        return misled(space, error)
    return replace(space, knobs=tuple(replace(k, unpriced=_levers(k)) for k in space.knobs))


def _levers(knob: FakeKnob) -> frozenset[object]:
    return frozenset(list(knob.factors)[1:])


def change_of(context: Context, lever: tuple[str, object]) -> Change:
    """Return the change that turns one lever."""
    name, value = lever
    move = Move(knob=name, old=context.baseline_settings[name], new=value)
    return make_change((move,), {spec.name: spec for spec in context.specs}, context.state.bottlenecks or ())


def run(how: Setting, num_seeds: int) -> Iterator[Tried]:
    """Try every candidate three times."""
    for shape in SPACES:
        for seed in range(num_seeds):
            space = draw_space(shape, seed)
            for lever in candidates(shape, seed):
                full = try_lever(shape, seed, lever, how, frozenset(), seed)
                again = try_lever(shape, seed, lever, how, frozenset(), seed + OTHER_SEED)
                ladder = try_lever(shape, seed, lever, how, REPLAYABLE, seed)
                yield Tried(
                    shape=shape,
                    seed=seed,
                    lever=f"{lever[0]}={lever[1]}",
                    true_ratio=space.true_ratio({**space.baseline, lever[0]: lever[1]}),
                    full_steps=full[0],
                    again_steps=again[0],
                    ladder_steps=ladder[0],
                    full=full[1],
                    again=again[1],
                    ladder=ladder[1],
                    replays=ladder[2],
                )


def table(tried: Sequence[Tried]) -> dict[str, object]:
    """Return costs and agreement, of all candidates and of those with and without a gain."""
    gains = [t for t in tried if t.true_ratio < WORTH]
    rest = [t for t in tried if t.true_ratio >= WORTH]
    return {
        "all": costs(tried),
        "gain worth having": costs(gains),
        "none": costs(rest),
        "same decision, ladder and full": _share(tried, lambda t: is_adopted(t.ladder) == is_adopted(t.full)),
        "same decision, full and full again": _share(tried, lambda t: is_adopted(t.again) == is_adopted(t.full)),
        "gains adopted": {arm: _share(gains, lambda t, a=arm: is_adopted(getattr(t, a))) for arm in ARMS},
        "others adopted": {arm: _share(rest, lambda t, a=arm: is_adopted(getattr(t, a))) for arm in ARMS},
        "lost by the replay": [asdict(t) for t in tried if is_adopted(t.full) and not is_adopted(t.ladder)],
    }


ARMS = ("full", "again", "ladder")


def is_adopted(outcome: str) -> bool:
    """Return whether a trial's change became the incumbent."""
    return outcome == str(Outcome.ADOPT)


def costs(tried: Sequence[Tried]) -> dict[str, object]:
    """Return median and mean costs and the ratio of medians with its 95 % interval over candidates."""
    if len(tried) < 2:
        return {"n": len(tried)}
    full, ladder = [t.full_steps for t in tried], [t.ladder_steps for t in tried]

    def of_medians(places: Sequence[float]) -> float:
        return statistics.median(ladder[int(i)] for i in places) / statistics.median(full[int(i)] for i in places)

    ratio = bootstrap_interval([float(i) for i in range(len(tried))], of_medians, seed=0)
    return {
        "n": len(tried),
        "replayed": sum(t.replays for t in tried),
        "full_median_steps": round(statistics.median(full), 2),
        "ladder_median_steps": round(statistics.median(ladder), 2),
        "median_ratio": [round(v, 3) for v in (ratio.value, ratio.low, ratio.high)],
        "full_mean_steps": round(statistics.fmean(full), 2),
        "ladder_mean_steps": round(statistics.fmean(ladder), 2),
    }


def _share(tried: Sequence[Tried], holds: object) -> str:
    return f"{sum(bool(holds(t)) for t in tried)}/{len(tried)}"  # type: ignore[operator]


def main() -> None:
    """Run every setting and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS)
    parser.add_argument("--quick", action="store_true", help="one seed, nothing written")
    given = parser.parse_args()
    num_seeds = 1 if given.quick else given.seeds
    tables = dict[str, object]()
    for name, how in SETTINGS.items():
        tables[name] = table(list(run(how, num_seeds)))
        print(json.dumps({name: tables[name]}, indent=1), flush=True)
    if not given.quick and num_seeds >= NUM_SEEDS:
        made = {"num_seeds": num_seeds, "levers_per_space": LEVERS_PER_SPACE, "spaces": SPACES, "tables": tables}
        write_file(HERE / "results" / "ladder.json", json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
