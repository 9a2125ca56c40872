"""The step model on TRL: a profile of the incumbent into prices, prices and lengths into the candidate's step.

::

    calls of `generate`, one after another        static batching: `cluster.static`, `cluster.makespan`
    + micro-batches of so many padded rows        `cluster.train_side`, checkpointing by the forward's measured share
    + AdamW + what no span covers

Each side is scaled until the incumbent's own steps come out as measured, so a probe gives a price's shape and never its
level. Surprise: a row decodes until its call's longest ends, so fewer rows per call can cost or save time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from prospective.backend import Settled, Told
from prospective.job import Job, Moves
from prospective.trl_messages import GenerateCall, MicroPass, Probe, TrlProfile
from steptune.core.change import Change
from steptune.core.errors import explain
from steptune.core.phase import Phase, Role
from steptune.forecast.cluster.calibrate import MicroBatch, fit_train, line
from steptune.forecast.cluster.decode import DrainPoint, curve_from_drain
from steptune.forecast.cluster.makespan import makespan
from steptune.forecast.cluster.parameters import StepParameters
from steptune.forecast.cluster.phase_residual import PhaseTrial, TaughtPhase, corrected, learn_phases
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.static import in_calls
from steptune.forecast.cluster.step import MODEL_LOG_SD
from steptune.forecast.cluster.train_side import TrainCosts, TrainKnobs, train_time
from steptune.forecast.cluster.work import GroupShape, RowShape, Work
from steptune.forecast.curve import ForecastError
from steptune.forecast.interval import Z_80

ROLLOUT, TRAIN = f"{Role.ROLLOUT}:{Phase.ROLLOUT}", f"{Role.TRAINER}:{Phase.TRAIN}"
"""Names of the phases in a trial's times."""

TOUCHES: dict[TaughtPhase, frozenset[str]] = {
    "rollout": frozenset({"generation_calls", "bf16", "num_threads"}),
    "train": frozenset(
        {"per_device_train_batch_size", "generation_calls", "gradient_checkpointing", "bf16", "num_threads"}
    ),
}
"""Knobs that move a phase at all."""

MOVE_LOG_SD = 0.035
"""Log error of one phase per knob that touches it, before any trial. Prior; fitted on no trial of the campaign."""

NOISE_LOG_SD = 0.03
"""Log standard deviation of a trial's ratio. Prior."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Modelled seconds: ``Step(rollout_s=0.8, train_s=1.1, rest_s=0.05)``."""

    rollout_s: float
    train_s: float
    rest_s: float

    @property
    def seconds(self) -> float:
        """The whole."""
        return self.rollout_s + self.train_s + self.rest_s


def forecast(job: Job, profile: TrlProfile, settled: Sequence[Settled], moves: Moves) -> Told:
    """Return candidate / incumbent with its 80 % interval.

    Raises:
        ForecastError: the profile lacks a probe, or a step or a phase took no time.
    """
    base, raw = modelled(job, profile, {}), modelled(job, profile, moves)
    sides = {"rollout": raw.rollout_s / base.rollout_s, "train": raw.train_s / base.train_s}
    own, log_sd = _learnt(job, profile, settled, moves, base)
    rollout_s, train_s = raw.rollout_s * own["rollout"], raw.train_s * own["train"]
    step_s = rollout_s + train_s + raw.rest_s
    shares = {"rollout": rollout_s / step_s, "train": train_s / step_s}
    spread = math.hypot(MODEL_LOG_SD, *(shares[phase] * log_sd[phase] for phase in sides))
    ratio, width = step_s / base.seconds, math.exp(Z_80 * spread)
    return Told(ratio=ratio, low=ratio / width, high=ratio * width, num_free_parameters=_num_free(job, profile, moves))


def modelled(job: Job, profile: TrlProfile, moves: Moves) -> Step:
    """Return the step under ``moves``, each side scaled by what the incumbent's own steps took."""
    work = _work(job, profile)
    own, made = (_unscaled(profile, job.settings(m), work) for m in ({}, moves))
    measured = measured_step(profile)
    return Step(
        rollout_s=made.rollout_s * measured.rollout_s / own.rollout_s,
        train_s=made.train_s * measured.train_s / own.train_s,
        rest_s=measured.rest_s,
    )


def measured_step(profile: TrlProfile) -> Step:
    """Return the profiled steps' means."""
    rollout_s = fmean(math.fsum(call.seconds for call in step.calls) for step in profile.steps)
    train_s = fmean(math.fsum(m.forward_s + m.backward_s for m in step.micro) for step in profile.steps)
    return Step(
        rollout_s=rollout_s,
        train_s=train_s,
        rest_s=fmean(step.seconds for step in profile.steps) - rollout_s - train_s,
    )


def prices(profile: TrlProfile, settings: Moves) -> StepParameters:
    """Return the prices under the settings' number format and threads.

    Raises:
        ForecastError: there is no probe of them.
    """
    probe = _probe(profile, settings)
    own = _probe(profile, profile.settings)
    points = _points(probe.calls)
    curve = curve_from_drain(points)
    growth = _own_growth(profile) * _mean_iteration_s(probe) / _mean_iteration_s(own)
    base_s, per_token_s = line([(c.rows * c.prompt_len, _around_s(c)) for c in _settled_calls(probe.calls)])
    rollout = RolloutCosts(
        decode=replace(curve, per_cached_token_s=growth), prefill_base_s=base_s, prefill_per_token_s=per_token_s
    )
    return StepParameters(rollout=rollout, train=_train_costs(profile, probe))


def _unscaled(profile: TrlProfile, settings: Moves, work: Work) -> Step:
    made = prices(profile, settings)
    calls, rows = settings["generation_calls"], settings["per_device_train_batch_size"]
    assert isinstance(calls, int)
    assert isinstance(rows, int)
    knobs = RolloutKnobs(num_replicas=1, share_prefill=False)
    decoded = in_calls(_after_first_token(work), calls)
    makespans = [makespan(knobs, made.rollout, decoded, step=i).seconds for i in range(len(decoded.steps))]
    recompute = "full" if settings["gradient_checkpointing"] else "none"
    train = TrainKnobs(num_ranks=1, micro_batch_rows=rows, recompute=recompute)
    trained = [train_time(train, made.train, call).seconds for call in in_calls(work, calls).steps]
    num_steps = len(work.steps)
    return Step(rollout_s=math.fsum(makespans) / num_steps, train_s=math.fsum(trained) / num_steps, rest_s=0.0)


def _work(job: Job, profile: TrlProfile) -> Work:
    prompt, size = profile.steps[0].calls[0].prompt_len, job.group_size
    steps = tuple(
        tuple(
            GroupShape(prompt=prompt, rows=tuple(RowShape(tokens=n) for n in lengths[i : i + size]))
            for i in range(0, len(lengths), size)
        )
        for lengths in profile.lengths
    )
    return Work(steps=steps, max_completion=job.lengths.longest)


def _after_first_token(work: Work) -> Work:
    """The prefill makes a row's first token."""
    return replace(
        work,
        steps=tuple(
            tuple(replace(g, rows=tuple(RowShape(tokens=row.tokens - 1) for row in g.rows)) for g in step)
            for step in work.steps
        ),
    )


def _probe(profile: TrlProfile, settings: Moves) -> Probe:
    key = settings["bf16"], settings["num_threads"]
    found = next((p for p in profile.probes if (p.bf16, p.num_threads) == key), None)
    if found is None:
        raise ForecastError(
            explain(
                "no probe of this number format and number of threads",
                got=f"bf16 {key[0]}, {key[1]} threads",
                allowed=", ".join(f"bf16 {p.bf16}, {p.num_threads} threads" for p in profile.probes),
                hint="profile the incumbent again",
            )
        )
    return found


def _settled_calls(calls: Sequence[GenerateCall]) -> list[GenerateCall]:
    """Return the fastest call of each width: the first one pays for buffers."""
    fastest: dict[int, GenerateCall] = {}
    for call in calls:
        known = fastest.get(call.rows)
        if known is None or call.seconds < known.seconds:
            fastest[call.rows] = call
    return list(fastest.values())


def _points(calls: Sequence[GenerateCall]) -> list[DrainPoint]:
    return [
        DrainPoint(running=call.rows, cached_tokens=0.0, seconds=seconds)
        for call in _settled_calls(calls)
        for seconds in call.iterations_s
    ]


def _around_s(call: GenerateCall) -> float:
    """Return a call's seconds that are no decode iteration: prefill, set-up, cutting the rows."""
    return call.seconds - math.fsum(call.iterations_s)


def _mean_iteration_s(probe: Probe) -> float:
    widest = max(_settled_calls(probe.calls), key=lambda call: call.rows)
    return fmean(widest.iterations_s)


def _own_growth(profile: TrlProfile) -> float:
    """Return seconds per cached token, from the incumbent's whole calls: all rows stay, only the cache grows."""
    calls = [call for step in profile.steps for call in step.calls]
    points = [
        DrainPoint(running=call.rows, cached_tokens=call.rows * (call.prompt_len + i), seconds=seconds)
        for call in calls
        for i, seconds in enumerate(call.iterations_s, 1)
    ]
    return curve_from_drain(points).per_cached_token_s


def _train_costs(profile: TrlProfile, probe: Probe) -> TrainCosts:
    repeats = bool(profile.settings["gradient_checkpointing"])
    micro = [min(own, key=_seconds) for own in _by_rows(probe.micro).values()]
    whole = [
        MicroBatch(
            positions=m.rows * m.width,
            squared=m.rows * m.width**2,
            seconds=_seconds(m) - (m.layers_s if repeats else 0.0),
        )
        for m in micro
    ]
    again_s = math.fsum(m.layers_s for m in micro)
    return replace(fit_train(whole), full_recompute=1 + again_s / math.fsum(m.seconds for m in whole))


def _by_rows(micro: Sequence[MicroPass]) -> dict[int, list[MicroPass]]:
    found: dict[int, list[MicroPass]] = {}
    for one in micro:
        found.setdefault(one.rows, []).append(one)
    return found


def _seconds(micro: MicroPass) -> float:
    return micro.forward_s + micro.backward_s


def _learnt(
    job: Job, profile: TrlProfile, settled: Sequence[Settled], moves: Moves, base: Step
) -> tuple[dict[TaughtPhase, float], dict[TaughtPhase, float]]:
    """Return each phase's correction and log error under ``moves``, from the trials so far."""
    factors, log_sd = dict[TaughtPhase, float](), dict[TaughtPhase, float]()
    for phase, knobs in TOUCHES.items():
        num_touching = len(moves.keys() & knobs)
        prior_sd = MOVE_LOG_SD * math.sqrt(num_touching)
        neutral = StepParameters(
            rollout=RolloutCosts(decode=curve_from_drain([DrainPoint(running=1, cached_tokens=0, seconds=1)])),
            train=TrainCosts(per_token_s=1.0),
            rollout_log_sd=0.0,
            train_log_sd=0.0,
        )
        trials = [_phase_trial(job, profile, s, phase, base) for s in settled if s.moves.keys() & knobs]
        if not trials or not num_touching:
            factors[phase], log_sd[phase] = 1.0, prior_sd
            continue
        learnt = corrected(neutral, learn_phases(trials, NOISE_LOG_SD), _touching(job, moves, phase))
        is_rollout = phase == "rollout"
        factors[phase] = learnt.rollout.scale if is_rollout else learnt.train.scale
        log_sd[phase] = learnt.rollout_log_sd if is_rollout else learnt.train_log_sd
    return factors, log_sd


def _phase_trial(job: Job, profile: TrlProfile, trial: Settled, phase: TaughtPhase, base: Step) -> PhaseTrial:
    told = modelled(job, profile, trial.moves)
    name = ROLLOUT if phase == "rollout" else TRAIN
    ratio = told.rollout_s / base.rollout_s if phase == "rollout" else told.train_s / base.train_s
    pair = trial.pair
    return PhaseTrial(
        change=_touching(job, trial.moves, phase),
        forecast_ratio={phase: ratio},
        measured_ratio={phase: pair.candidate_phases_s[name] / pair.incumbent_phases_s[name]},
    )


def _touching(job: Job, moves: Moves, phase: TaughtPhase) -> Change:
    return job.change({knob: value for knob, value in moves.items() if knob in TOUCHES[phase]})


def _num_free(job: Job, profile: TrlProfile, moves: Moves) -> int:
    """Count what was fitted on the profile for incumbent and candidate: knots, growth, prefill, training, scales."""
    kinds = {(s["bf16"], s["num_threads"]) for s in (job.settings({}), job.settings(moves))}
    per_kind = [len(_settled_calls(_probe(profile, {"bf16": b, "num_threads": t}).calls)) + 5 for b, t in kinds]
    return sum(per_kind) + 4
