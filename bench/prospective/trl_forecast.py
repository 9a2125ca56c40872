"""The step model on TRL: a profile of the incumbent into prices, prices and lengths into the candidate's step.

::

    calls of `generate`, one after another        static batching: `cluster.static`, `cluster.makespan`
    + micro-batches of so many padded rows        looked up by their positions (`trl_prices`)
    + what no span covers                         carried over, a little more per micro-batch and call

Each side is drawn towards what the incumbent's own steps took: a probe gives a price's shape, and its level only as far
as `LEVEL_KEPT` says. Surprise: a row decodes until its call's longest ends, so fewer rows per call can cost or save
time.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from prospective.backend import Settled, Told
from prospective.job import Job, Moves
from prospective.job_residual import Expected, Learnt, Tried, learn
from prospective.trl_messages import TrlProfile
from prospective.trl_prices import Step, measured_step, micro_curve, num_prices, rest_s, rollout_costs
from steptune.core.phase import Phase, Role
from steptune.forecast.cluster.makespan import makespan
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.split import padded_micro_batches, rows_of
from steptune.forecast.cluster.static import in_calls
from steptune.forecast.cluster.work import GroupShape, RowShape, Work
from steptune.forecast.curve import price_at
from steptune.forecast.interval import Z_80

ROLLOUT, TRAIN = f"{Role.ROLLOUT}:{Phase.ROLLOUT}", f"{Role.TRAINER}:{Phase.TRAIN}"
"""Names of the phases in a trial's times."""

TaughtPhase = Literal["rollout", "train"]

NAMES: dict[TaughtPhase, str] = {"rollout": ROLLOUT, "train": TRAIN}

TOUCHES: dict[TaughtPhase, frozenset[str]] = {
    "rollout": frozenset({"generation_calls", "bf16", "num_threads"}),
    "train": frozenset(
        {"per_device_train_batch_size", "generation_calls", "gradient_checkpointing", "bf16", "num_threads"}
    ),
}
"""Knobs that move a phase at all."""

LEVEL_KEPT = 0.5
"""Power of the incumbent's own error, measured over modelled, that a candidate is taken to share; the rest is
probes' noise. Fitted on the first campaign's TRL jobs, leaving one out."""

PHASE_LOG_SD: dict[TaughtPhase, float] = {"rollout": 0.05, "train": 0.1}
"""Log error of a phase that a change touches, before any trial. Fitted likewise."""

SIZE_FRAC = 0.06
"""The same as a part of the log of the phase's own forecast ratio: what moves far is known less well. Fitted too."""

COMMON_LOG_SD = 0.02
"""What all ratios of a job share: the incumbent's level when it was profiled. Prior."""

PHASE_NOISE_LOG_SD = 0.04
"""Log standard deviation of a phase's measured ratio, from the first campaign's blocks."""

NOISE_LOG_SD = 0.035
"""The same of a trial's ratio: that of the first campaign's A/A repeats, of two launches and four pairs of steps."""


def forecast(job: Job, profile: TrlProfile, settled: Sequence[Settled], moves: Moves) -> Told:
    """Return candidate / incumbent with its 80 % interval; the noise of the trial that will score it is in it.

    Raises:
        ForecastError: the profile lacks a probe, or a step or a phase took no time.
    """
    base, raw = measured_step(profile), modelled(job, profile, moves)
    learnt = {phase: _learnt(job, profile, settled, moves, phase) for phase in TOUCHES}
    rollout_s = raw.rollout_s * math.exp(learnt["rollout"].log_correction)
    train_s = raw.train_s * math.exp(learnt["train"].log_correction)
    step_s = rollout_s + train_s + raw.rest_s
    parts = (rollout_s / step_s * learnt["rollout"].log_sd, train_s / step_s * learnt["train"].log_sd)
    ratio, width = step_s / base.seconds, math.exp(Z_80 * math.hypot(*parts, NOISE_LOG_SD))
    num_free = num_prices(profile, job.settings({})) + num_prices(profile, job.settings(moves)) + len(TOUCHES)
    return Told(ratio=ratio, low=ratio / width, high=ratio * width, num_free_parameters=num_free)


def modelled(job: Job, profile: TrlProfile, moves: Moves) -> Step:
    """Return the step under ``moves``, each side drawn towards what the incumbent's own steps took."""
    work, measured = _work(job, profile), measured_step(profile)
    own, made = (_unscaled(profile, job.settings(m), work) for m in ({}, moves))
    if not moves:
        return measured
    return Step(
        rollout_s=made.rollout_s * (measured.rollout_s / own.rollout_s) ** LEVEL_KEPT,
        train_s=made.train_s * (measured.train_s / own.train_s) ** LEVEL_KEPT,
        rest_s=made.rest_s,
    )


def _unscaled(profile: TrlProfile, settings: Moves, work: Work) -> Step:
    calls, rows = settings["generation_calls"], settings["per_device_train_batch_size"]
    assert isinstance(calls, int)
    assert isinstance(rows, int)
    knobs = RolloutKnobs(num_replicas=1, share_prefill=False)
    costs, curve = rollout_costs(profile, settings), micro_curve(profile, settings)
    decoded = in_calls(_after_first_token(work), calls)
    makespans = [makespan(knobs, costs, decoded, step=i).seconds for i in range(len(decoded.steps))]
    micro = [own for call in in_calls(work, calls).steps for own in padded_micro_batches(rows_of(call), rows)]
    num_steps = len(work.steps)
    return Step(
        rollout_s=math.fsum(makespans) / num_steps,
        train_s=math.fsum(price_at(curve, sum(own)).seconds for own in micro) / num_steps,
        rest_s=rest_s(profile, settings),
    )


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


def _learnt(job: Job, profile: TrlProfile, settled: Sequence[Settled], moves: Moves, phase: TaughtPhase) -> Learnt:
    """Return a phase's correction and log error under ``moves``, from the trials so far."""
    if not _touching(moves, phase):
        return Learnt(log_correction=0.0, log_sd=COMMON_LOG_SD, noise=PHASE_NOISE_LOG_SD)
    tried = [_tried(job, profile, s, phase) for s in settled if _touching(s.moves, phase)]
    return learn(tried, _expected(job, profile, moves, phase), common=COMMON_LOG_SD, noise=PHASE_NOISE_LOG_SD)


def _tried(job: Job, profile: TrlProfile, trial: Settled, phase: TaughtPhase) -> Tried:
    name, pair = NAMES[phase], trial.pair
    measured = pair.candidate_phases_s[name] / pair.incumbent_phases_s[name]
    log_error = math.log(measured / _phase_ratio(job, profile, trial.moves, phase))
    return Tried(expected=_expected(job, profile, trial.moves, phase), log_error=log_error)


def _expected(job: Job, profile: TrlProfile, moves: Moves, phase: TaughtPhase) -> Expected:
    size = SIZE_FRAC * math.log(_phase_ratio(job, profile, moves, phase))
    return Expected(moves=_touching(moves, phase), log_sd=math.hypot(PHASE_LOG_SD[phase], size))


def _phase_ratio(job: Job, profile: TrlProfile, moves: Moves, phase: TaughtPhase) -> float:
    own, base = modelled(job, profile, moves), measured_step(profile)
    return own.rollout_s / base.rollout_s if phase == "rollout" else own.train_s / base.train_s


def _touching(moves: Moves, phase: TaughtPhase) -> Moves:
    return {knob: value for knob, value in moves.items() if knob in TOUCHES[phase]}
