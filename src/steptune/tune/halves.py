"""Before a change of both sides is launched: halves of it beside rival halves, replayed alone, and the choice again.

::

    choose --> change of both sides? --no--> trial (which may be screened)
      ^              | yes, and a half of a rival may well be faster, and replays are cheap beside its trial
      |         both halves in turn on recorded batches, HalfReplayed
      '----- the forecast of that part ------'

A relaunch costs as much as some forty replayed steps, and the change that is forecast to be best is the one whose error
flatters it most. A *rival* differs from it on one side only, so that this side's replay tells the two apart. The
surprise: nothing here says yes or no. What a replay shows teaches the forecast of its part about the moves in which the
two differ, the forecast joins both parts, and the search chooses by it. Overlap, contention, queues and guards are for
whole steps. Halves are not run beside the baseline's: what two good ones share is not what has to be chosen, and the
baseline's side is the slow one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import final

from steptune.core.change import Change
from steptune.core.errors import StepTuneError
from steptune.core.event import HalfReplayed
from steptune.core.framework import ReplaysSides, SideReplay
from steptune.core.phase import Role
from steptune.decide.half import HALF_LOOKS, half_ratio
from steptune.forecast.learn_trial import REPLAYED_PART
from steptune.forecast.parts import PartSeconds
from steptune.forecast.rank import Priced, rank
from steptune.forecast.residual import move_keys, noise_sd
from steptune.forecast.taught import PART_SD, Taught, teach
from steptune.tune.baseline import NOTHING
from steptune.tune.context import Context
from steptune.tune.measured_side import incumbent_of, side_spread
from steptune.tune.relabel import labelled
from steptune.tune.screen import SCREEN_WARM_UPS, replayable_side
from steptune.tune.search_state import SearchState, moves_of_side
from steptune.tune.space import Space
from steptune.tune.trial_cost import trial_cost

MOST_OF_TRIAL = 1 / 3
"""Part of the price of the trial ahead that replays of halves may take before it."""

LEAST_GAIN = 0.002
"""Expected gain of the step (log) below which a rival is not asked about."""

STANDARD = NormalDist()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Duel:
    """Two changes that differ on one side: ``Duel(side=Role.TRAINER, taught=<packed>, beside=<padded>, ...)``."""

    side: Role
    taught: int
    """Index of the one that has the moves in question."""
    beside: int
    knobs: tuple[str, ...]
    """Those moves' knobs."""
    seconds: float
    """What the replay is expected to take."""
    gain: float
    """Expected gain of the step (log) from knowing."""


def replay_halves(context: Context, space: Space, index: int, found: SearchState) -> bool:
    """Replay a half of the chosen change beside a rival's, where that is worth it; return whether it was."""
    duel = next_duel(context, space, index, found)
    if duel is None:
        return False
    event = _replayed(context, space, duel, _Told.of(context, found))
    context.record(event)
    told = f"settles nothing: {event.problem}" if event.times is None else f"takes {event.ratio} of the baseline's"
    context.progress.say(
        f"trial {event.trial_number}: before it the {duel.side} half of {event.change}, in turn with that of "
        f"{event.beside}, {told}"
    )
    return True


def next_duel(context: Context, space: Space, index: int, found: SearchState) -> Duel | None:
    """Return what to replay before the chosen change is tried; None where its trial is next.

    Only where a helper is up: a start-up would cost as much as the launch that is to be spared.
    """
    framework, chosen = context.framework, next((each for each in space.priced if each.index == index), None)
    if not isinstance(framework, ReplaysSides) or not framework.is_ready_to_replay() or chosen is None:
        return None
    change = labelled(space.proposal.changes[index], found.relabelled)
    incumbent = found.incumbent.trial.change if found.incumbent else NOTHING
    is_of_both = all(moves_of_side(change, side, _sides(context)) for side in REPLAYED_PART)
    if not is_of_both or replayable_side(context, change, incumbent) is not None:
        return None
    left_s = min(_most_s(context, change, chosen, found), context.budget.stage_left_s())
    duels = [each for each in _duels(context, space, chosen, found) if each.seconds <= left_s]
    best = max(duels, key=lambda duel: (duel.gain / duel.seconds, -duel.taught, -duel.beside), default=None)
    return best if best is not None and best.gain >= LEAST_GAIN else None


def _most_s(context: Context, change: Change, chosen: Priced, found: SearchState) -> float:
    """Return the seconds that may still be spent on halves before the trial of ``chosen``."""
    (row,) = rank((chosen,), history=found.history, noise_floor=context.baseline.noise)
    trial_s = trial_cost(context, found)(change, row.ratio.mid, row.ratio.high) * context.baseline.step_time.value
    number = len(context.state.ended) + 1
    spent = (event.cost_wall_s for event in context.state.halves if event.trial_number == number)
    return MOST_OF_TRIAL * trial_s - math.fsum(spent)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """Forecasts of parts as trials and halves have corrected them."""

    taught: Taught

    @classmethod
    def of(cls, context: Context, found: SearchState) -> "_Told":
        return cls(taught=teach(found.history, noise_sd(context.baseline.noise)))

    def parts(self, priced: Priced) -> PartSeconds:
        return priced.from_baseline.parts.times(self.taught.factors(priced.from_baseline.touched))

    def side_ratio(self, priced: Priced, side: Role) -> float:
        """Return a side's seconds over the baseline's."""
        part = REPLAYED_PART[side]
        return getattr(self.parts(priced), part) / getattr(priced.from_baseline.baseline, part)

    def ratio_beside(self, beside: Priced, side: Role, change: Change) -> float:
        """Return the same of ``beside``, corrected for moves that ``change`` has not: what both have, both err by."""
        part, shared = REPLAYED_PART[side], set(move_keys(change))
        own = [key for key in beside.from_baseline.touched.by_part.get(part, ()) if key not in shared]
        raw = getattr(beside.from_baseline.parts, part) / getattr(beside.from_baseline.baseline, part)
        return raw * math.exp(self.taught.parts[part].correction_of(own))


def _duels(context: Context, space: Space, chosen: Priced, found: SearchState) -> Iterator[Duel]:
    """Yield the chosen change beside every rival that was not measured."""
    told, changes, sides = _Told.of(context, found), space.proposal.changes, _sides(context)
    ours = {side: moves_of_side(changes[chosen.index], side, sides) for side in REPLAYED_PART}
    known = {
        (e.side, moves_of_side(each, e.side, sides)) for e in context.state.halves for each in (e.change, e.beside)
    }
    booked_s = {side: incumbent_of(context.state, NOTHING.signature, side).booked_s for side in REPLAYED_PART}
    for priced in space.priced:
        rival = changes[priced.index]
        theirs = {side: moves_of_side(rival, side, sides) for side in REPLAYED_PART}
        differ = [side for side in REPLAYED_PART if theirs[side] != ours[side]]
        if len(differ) != 1 or priced.memory_fits is False or not found.is_open(labelled(rival, found.relabelled)):
            continue
        (side,) = differ
        if (side, theirs[side]) in known or not _can_replay(context, (changes[chosen.index], rival), side):
            continue
        both = math.fsum(told.side_ratio(each, side) for each in (chosen, priced))
        new, old = theirs[side] - ours[side], ours[side] - theirs[side]
        yield Duel(
            side=side,
            taught=priced.index if new else chosen.index,
            beside=chosen.index if new else priced.index,
            knobs=tuple(sorted(knob for knob, _ in new or old)),
            seconds=(SCREEN_WARM_UPS + HALF_LOOKS[-1]) * both * booked_s[side],
            gain=expected_gain(told.parts(chosen), told.parts(priced), side, len(new | old)),
        )


def expected_gain(chosen: PartSeconds, rival: PartSeconds, side: Role, num_moves: int) -> float:
    """Return the expected gain of the step (log) from knowing how long the rival's ``side`` takes.

    ``num_moves``: moves in which the two differ; what the forecast of a part errs by adds up over them. Example: a
    rival forecast equal, one trainer move apart, on a side of half of the step: 0.045 x 0.4 = 0.018.
    """
    part = REPLAYED_PART[side]
    sd = PART_SD[part] * math.sqrt(num_moves)
    ahead = math.log(chosen.step_s / rival.step_s)
    spread = math.log(rival.times({part: math.exp(sd)}).step_s / rival.step_s)
    if not spread > 0:
        return 0.0
    z = ahead / spread
    known = ahead * STANDARD.cdf(z) + spread * STANDARD.pdf(z)  # `propose.choose.improvement`
    return known - max(0.0, ahead)


def _sides(context: Context) -> dict[str, Role]:
    return {spec.name: spec.side for spec in context.specs}


def _can_replay(context: Context, changes: tuple[Change, Change], side: Role) -> bool:
    framework, base = context.framework, context.baseline_settings
    assert isinstance(framework, ReplaysSides), "only such a framework is asked"
    return all(side in framework.replayable_sides(context.job, each.applied_to(base)) for each in changes)


def _replayed(context: Context, space: Space, duel: Duel, told: _Told) -> HalfReplayed:
    """Replay and measure; a replay that fails is told."""
    framework, spread, base = context.framework, side_spread(context.state, duel.side), context.baseline_settings
    assert isinstance(framework, ReplaysSides), "only such a framework is asked"
    change, beside = (space.proposal.changes[each] for each in (duel.taught, duel.beside))
    number = len(context.state.ended) + 1
    wanted = SideReplay(
        side=duel.side,
        incumbent=beside.applied_to(base),
        candidate=change.applied_to(base),
        batches_dir=str(context.batches_dir),
        looks=HALF_LOOKS,
        line=1.0,
        spread=spread,
        max_s=max(0.0, context.budget.stage_left_s()),
    )
    clock = context.budget.clock
    started_s, times, problem = clock(), None, ""
    try:
        times = framework.replay_side(context.job, wanted, context.run_path("halves", f"{number:03d}-{duel.side}"))
    except (StepTuneError, MemoryError) as error:
        problem = f"{type(error).__name__}: {error}"
    wall_s = clock() - started_s
    priced = next(each for each in space.priced if each.index == duel.beside)
    forecast, sides = told.ratio_beside(priced, duel.side, change), _sides(context)
    moved = {knob for each in (change, beside) for knob, _ in moves_of_side(each, duel.side, sides)}
    return HalfReplayed(
        trial_number=number,
        change=change,
        side=duel.side,
        knobs=duel.knobs,
        side_knobs=tuple(sorted(moved)),
        planned=space.planned[duel.taught],
        planned_baseline=space.planned_baseline,
        beside=beside,
        beside_ratio=forecast,
        times=times,
        problem=problem,
        ratio=half_ratio(times, forecast, spread),
        cost_wall_s=wall_s,
        cost_device_s=wall_s * context.job.devices.num_cores,
    )
