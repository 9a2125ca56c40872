"""What a trial costs with a replay of its one side before it and without, and whether both decide the same.

`python bench/ladder.py` (about ten minutes on one core, any machine: the clock is virtual) writes
`bench/results/ladder.json`; `--quick` runs one seed and writes nothing. `--chunk 3/30 --into FOLDER` runs a part of
the seeds and leaves its rows there, `--merge FOLDER` makes the result of them.

Every candidate is one lever of a drawn space that touches one side of a synchronous step, tried by the tuner's own
`try_one` against the baseline; the levers of one space share a session, as in a search. Arms: *full* cannot replay a
side, *ladder* can, in the process that has probed the costs. Costs are virtual seconds of everything from a
trial's start to its result (start-ups, warm-up, rehearsals, replays, update parity) in steps of the baseline. The
surprise: *the same decision* has to be judged by the truth as well, for two full trials of one candidate do not always
agree either, so *again* is full with other noise.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
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
from steptune.tune.context import Context, trial_spec  # noqa: E402
from steptune.tune.search import try_one  # noqa: E402
from steptune.tune.search_state import search_state  # noqa: E402

FIRST_SEED, NUM_SEEDS = 1000, 30
"""Seeds of the result; the ladder was made looking at seeds 100 to 107."""
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
    "forecast error 10 %, start-up 20 steps, incumbent waits": Setting(
        start_up_steps=20, incumbent_waits=True, forecast_error=0.1
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """What the framework can do: ``Arm(sides=frozenset(), keeps_worker=False, shift=0)``."""

    sides: frozenset[Role]
    keeps_worker: bool = False
    shift: int = 0
    """Added to the seed of the noise."""


ARMS = {
    "full": Arm(sides=frozenset()),
    "again": Arm(sides=frozenset(), shift=OTHER_SEED),
    "ladder": Arm(sides=REPLAYABLE, keeps_worker=True),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """What one arm made of one candidate."""

    steps: float
    outcome: str
    has_replay: bool
    spent_on: dict[str, float]
    """``steps`` by what they went to."""

    @property
    def is_adopted(self) -> bool:
        """Whether the change became the incumbent."""
        return self.outcome == str(Outcome.ADOPT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One candidate, tried by every arm."""

    setting: str
    shape: str
    seed: int
    lever: str
    true_ratio: float
    arms: dict[str, Outcomes]


def candidates(shape: str, seed: int) -> list[tuple[str, object]]:
    """Return some levers of one drawn space that touch one side."""
    space = draw_space(shape, seed)
    every = [(k.name, value) for k in space.knobs if not k.across for value in list(k.factors)[1:]]
    return random.Random(f"levers {shape} {seed}").sample(every, min(LEVERS_PER_SPACE, len(every)))


def try_levers(shape: str, seed: int, levers: Sequence[tuple[str, object]], how: Setting, arm: Arm) -> list[Outcomes]:
    """Try one lever after the other against the baseline, in one session."""
    space = believed(draw_space(shape, seed), how.forecast_error)
    framework = FakeFramework(
        knob_table=space.knobs,
        pairs=space.pairs,
        noise=STEP_NOISE,
        launch_noise=LAUNCH_NOISE,
        seed=seed + arm.shift,
        start_up_s=how.start_up_steps * STEP_S,
        sides=arm.sides,
        keeps_worker=arm.keeps_worker,
    )
    with session(framework, JOB, STEP_S) as context:
        context.budget.spec = JOB.budget
        nothing_found = search_state(context.state, context.effects)
        made = list[Outcomes]()
        for number, lever in enumerate(levers):
            context.runs.stop()
            if how.incumbent_waits:
                spec = trial_spec(context, context.baseline_settings)
                waiting = context.runs.launch(JOB, spec, context.run_path("waiting", str(number)))
                waiting.run_steps(1)
                waiting.close()
            before = dict(framework.spent_on)
            try_one(context, space_of(context, change_of(context, lever)), 0, nothing_found)
            made.append(_outcomes(context, framework.spent_on, before))
        return made


def _outcomes(context: Context, after: dict[str, float], before: dict[str, float]) -> Outcomes:
    spent = {what: (seconds - before.get(what, 0.0)) / STEP_S for what, seconds in after.items()}
    ended = context.state.ended[-1]
    return Outcomes(
        steps=sum(spent.values()),
        outcome=str(ended.outcome),
        has_replay=any(isinstance(e, Screened) and e.number == ended.trial.number for e in context.journal.events),
        spent_on=spent,
    )


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


def run(seeds: Sequence[int]) -> Iterator[Tried]:
    """Try every candidate of these seeds in every setting and arm."""
    for setting, how in SETTINGS.items():
        for shape in SPACES:
            for seed in seeds:
                space, levers = draw_space(shape, seed), candidates(shape, seed)
                made = {name: try_levers(shape, seed, levers, how, arm) for name, arm in ARMS.items()}
                for place, (knob, value) in enumerate(levers):
                    yield Tried(
                        setting=setting,
                        shape=shape,
                        seed=seed,
                        lever=f"{knob}={value}",
                        true_ratio=space.true_ratio({**space.baseline, knob: value}),
                        arms={name: outcomes[place] for name, outcomes in made.items()},
                    )


def table(tried: Sequence[Tried]) -> dict[str, object]:
    """Return costs and agreement, of all candidates and of those with and without a gain."""
    gains = [t for t in tried if t.true_ratio < WORTH]
    rest = [t for t in tried if t.true_ratio >= WORTH]
    agreeing = {
        name: _share(tried, lambda t, name=name: t.arms[name].is_adopted == t.arms["full"].is_adopted)
        for name in ("ladder", "again")
    }
    return {
        "all": costs(tried),
        "gain worth having": costs(gains),
        "none": costs(rest),
        "same decision as full": agreeing,
        "gains adopted": {arm: _share(gains, lambda t, a=arm: t.arms[a].is_adopted) for arm in ARMS},
        "others adopted": {arm: _share(rest, lambda t, a=arm: t.arms[a].is_adopted) for arm in ARMS},
        "ladder against full": [
            f"{t.shape} {t.seed} {t.lever} {t.true_ratio:.3f}: {t.arms['full'].outcome} -> {t.arms['ladder'].outcome}"
            for t in tried
            if t.arms["full"].is_adopted != t.arms["ladder"].is_adopted
        ],
    }


def costs(tried: Sequence[Tried]) -> dict[str, object]:
    """Return median and mean costs, what they went to, and ratios of medians with 95 % intervals over candidates."""
    if len(tried) < 2:
        return {"n": len(tried)}
    by_arm = {name: [t.arms[name].steps for t in tried] for name in ARMS}
    return {
        "n": len(tried),
        "replayed": sum(t.arms["ladder"].has_replay for t in tried),
        "median_steps": {name: round(statistics.median(steps), 2) for name, steps in by_arm.items()},
        "mean_steps": {name: round(statistics.fmean(steps), 2) for name, steps in by_arm.items()},
        "median_ratio_to_full": {
            name: _ratio_of_medians(by_arm[name], by_arm["full"]) for name in ARMS if name != "full"
        },
        "mean_steps_by_use": {name: _by_use(tried, name) for name in ARMS},
    }


def _ratio_of_medians(ours: Sequence[float], full: Sequence[float]) -> list[float]:
    def of_medians(places: Sequence[float]) -> float:
        return statistics.median(ours[int(i)] for i in places) / statistics.median(full[int(i)] for i in places)

    ratio = bootstrap_interval([float(i) for i in range(len(ours))], of_medians, seed=0)
    return [round(v, 3) for v in (ratio.value, ratio.low, ratio.high)]


def _by_use(tried: Sequence[Tried], arm: str) -> dict[str, float]:
    uses = sorted({use for t in tried for use in t.arms[arm].spent_on})
    return {use: round(statistics.fmean(t.arms[arm].spent_on.get(use, 0.0) for t in tried), 2) for use in uses}


def _share(tried: Sequence[Tried], holds: Callable[[Tried], bool]) -> str:
    return f"{sum(holds(t) for t in tried)}/{len(tried)}"


def merged(folder: Path) -> list[Tried]:
    """Return the rows of all chunks of a folder."""
    rows = [row for path in sorted(folder.glob("*.json")) for row in json.loads(path.read_text(encoding="utf-8"))]
    return [Tried(**{**row, "arms": {name: Outcomes(**arm) for name, arm in row["arms"].items()}}) for row in rows]


def main() -> None:
    """Run, or merge, and print every setting's table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS)
    parser.add_argument("--quick", action="store_true", help="one seed, nothing written")
    parser.add_argument("--chunk", help="I/N: the I-th of N pieces of the seeds, counted from 0")
    parser.add_argument("--into", type=Path, help="folder that a piece's rows go to")
    parser.add_argument("--merge", type=Path, help="folder of pieces to make the result of")
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + (1 if given.quick else given.seeds))
    if given.chunk:
        index, num = (int(part) for part in given.chunk.split("/"))
        rows = [asdict(tried) for tried in run(seeds[index::num])]
        (given.into / f"{index:04d}-{num}.json").write_text(json.dumps(rows) + "\n", encoding="utf-8")
        return
    tried = merged(given.merge) if given.merge else list(run(seeds))
    tables = {name: table([t for t in tried if t.setting == name]) for name in SETTINGS}
    print(json.dumps(tables, indent=1))
    used = sorted({t.seed for t in tried})
    if len(used) >= NUM_SEEDS:
        made = {"seeds": [used[0], used[-1]], "levers_per_space": LEVERS_PER_SPACE, "spaces": SPACES, "tables": tables}
        write_file(HERE / "results" / "ladder.json", json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
