"""What a session writes in its journal, in order. The report and `--verify` read nothing else.

::

    SessionStarted -> Profiled(baseline) -> Diagnosed -> Proposed
        -> [ Forecasted -> TrialStarted -> Screened? -> TrialEnded ]*      one round per trial
        -> Reserved*                                            when the search ended: one per winner
        -> [ Forecasted(waterfall)* -> Waterfall ]*             one per winner; trials may follow (pruning)
        -> RewardTested*                                        trials may follow a failed one
        -> [ Confirmed | ConfirmationFailed ]*      a fault in one: trials and another confirmation may follow
        -> Profiled(tuned)? -> Decided -> SessionEnded

`SessionResumed` may stand anywhere after the start. A TrialStarted without TrialEnded was killed.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.bottleneck import Bottleneck
from steptune.core.change import Change, LimitPrice
from steptune.core.decision import Decision, Outcome, Range
from steptune.core.estimate import Estimate
from steptune.core.forecast import Forecast
from steptune.core.framework import Lever, SideTimes
from steptune.core.job import JobSpec
from steptune.core.objectives import ObjectiveForecast, ObjectiveGain
from steptune.core.parity import UpdatesReplayed
from steptune.core.phase import Role
from steptune.core.profile import Profile
from steptune.core.records import Record
from steptune.core.trial import Arm, Trial, TrialState
from steptune.core.verdict import Verdict
from steptune.core.work import PlannedWork


class Machine(Record):
    """Where the session ran: ``Machine(cpu="Intel Xeon", num_cores=2, memory_bytes=25e9, python="3.11.7", ...)``."""

    cpu: str
    num_cores: int
    memory_bytes: int
    python: str
    torch: str | None
    platform: str


class SessionStarted(Record):
    """The first event: the resolved job and everything fixed before a clock was read."""

    kind: Literal["session_started"] = "session_started"
    steptune_version: str
    code_hash: str
    """Hash of every source file of the package: a forecast names the code that made it."""
    job: JobSpec
    machine: Machine
    baseline_levers: tuple[Lever, ...]
    best_practice_levers: tuple[Lever, ...]


class SessionResumed(Record):
    """A later process took over."""

    kind: Literal["session_resumed"] = "session_resumed"
    code_hash: str
    abandoned_trials: tuple[int, ...]
    """Trials that were running when the session died; they are run again."""


class Profiled(Record):
    """A profile was measured."""

    kind: Literal["profiled"] = "profiled"
    label: Literal["baseline", "tuned"]
    profile: Profile
    arms: tuple[Arm, ...] = ()
    """Steps behind it: for the baseline the two arms of the A/A repeat."""
    alternate_because: str = ""
    """See `core.trial.Trial`: of these arms."""
    start_up_s: float | None = None
    """Seconds from a launch to its first step; of the baseline's profile."""
    evaluate_s: float | None = None
    """Seconds of the held-out problems once; of the baseline's profile."""
    cost_wall_s: float
    cost_device_s: float


class Diagnosed(Record):
    """Bottlenecks of the baseline, largest first."""

    kind: Literal["diagnosed"] = "diagnosed"
    bottlenecks: tuple[Bottleneck, ...]


class Proposed(Record):
    """How many changes were considered, and what the owner's limits cost."""

    kind: Literal["proposed"] = "proposed"
    num_candidates: int
    num_refused: int
    """Candidates that break a limit or cannot run."""
    refusals: tuple[str, ...]
    """The distinct reasons, most frequent first."""
    prices: tuple[LimitPrice, ...]
    best: tuple[ObjectiveForecast, ...] = ()
    """What is forecast best for each objective, whichever the job has; one that nothing beats the baseline in is left
    out."""


Part = Literal["rollout", "train", "load", "handover"]
"""A part of the step that trials teach of by itself: decoding and prefill, training, and both ends of new weights."""


class LearntPart(Record):
    """One part of a finished trial's step whose work the change moved.

    Example: bf16 decoding, forecast 0.71 and measured 0.86 of the baseline's whole step::

        LearntPart(part="rollout", knobs=("rollout_dtype",), raw_frac=0.71, measured_frac=0.86)
    """

    part: Part
    knobs: tuple[str, ...]
    """Knobs of the change that may have moved it."""
    raw_frac: float
    """Forecast busy seconds / the baseline's step time, from the profile alone."""
    measured_frac: float


class LearntFrom(Record):
    """A finished trial, as the residual learner sees it."""

    change: Change
    raw_forecast_ratio: float
    """Forecast / baseline step time from the profile alone, before any residual."""
    measured_ratio: float | None
    """Measured / baseline step time; None where a replay has measured one part and nobody the step."""
    parts: tuple[LearntPart, ...] = ()
    laid_out_ratio: float | None = None
    """Step time that the model makes of the measured parts / baseline step time; None where no parts were measured."""


class Forecasted(Record):
    """A forecast with all its inputs: `--verify` recomputes it from them."""

    kind: Literal["forecasted"] = "forecasted"
    purpose: Literal["trial", "waterfall"] = "trial"
    """What will score it: a trial, or a row of the waterfall."""
    trial_number: int
    """Number of the trial, or of the waterfall's row."""
    is_first: bool
    """Made from the baseline profile alone, before any trial."""
    forecast: Forecast
    planned: PlannedWork
    planned_baseline: PlannedWork
    history: tuple[LearntFrom, ...]


class HalfReplayed(Record):
    """One side of two changes that differ on it alone, in turn, before either is launched.

    Example: the trainer's half of packed rows, 0.94 of the seconds of padded ones, which are forecast to take 0.60 of
    the baseline's: 0.56. It teaches the forecast of that part about ``knobs`` and decides nothing: neither guards nor
    overlap nor queues are seen.
    """

    kind: Literal["half_replayed"] = "half_replayed"
    trial_number: int
    """Of the trial that it came before, of whichever change."""
    change: Change
    side: Role
    knobs: tuple[str, ...]
    """Whose moves ``beside`` has not."""
    side_knobs: tuple[str, ...]
    """Knobs of the side that either moves: what is accused where the replay dies."""
    planned: PlannedWork
    planned_baseline: PlannedWork
    beside: Change
    beside_ratio: float
    """Its seconds of the side / the baseline's as forecast, corrected for what was known then of moves that ``change``
    has not."""
    times: SideTimes | None
    """``beside`` as the incumbent. None where the replay failed."""
    problem: str = ""
    """Why it failed."""
    ratio: Estimate | None
    """Seconds of the side under ``change`` / the baseline's, those of ``beside`` taken as forecast."""
    cost_wall_s: float
    cost_device_s: float


class TrialStarted(Record):
    """A trial is about to launch."""

    kind: Literal["trial_started"] = "trial_started"
    number: int
    change: Change
    incumbent_signature: str


class Screened(Record):
    """A replay of the one side that a change touches, before its trial launches anything.

    Its cost is part of the trial's, unless another process resumed between them. Where ``goes_on`` is false the trial
    ends without a launch.
    """

    kind: Literal["screened"] = "screened"
    number: int
    """Of the trial."""
    signature: str
    """Of its change."""
    side: Role
    times: SideTimes | None
    """None where the replay failed, which settles nothing."""
    problem: str = ""
    """Why it failed."""
    incumbent_step_s: float
    """The incumbent's whole step as measured before: what the side's part is taken of."""
    booked_s: float
    """The side's part of that step by the incumbent's own spans."""
    devices_ratio: float
    """See `core.trial.Trial`."""
    ratio: Estimate | None
    """Candidate / incumbent of the objective, the other side taken as unchanged; 90 % interval."""
    goes_on: bool
    because: str
    cost_wall_s: float
    cost_device_s: float


class TrialEnded(Record):
    """A trial has a result: its guards' verdicts and whether it became the incumbent."""

    kind: Literal["trial_ended"] = "trial_ended"
    trial: Trial
    verdicts: tuple[Verdict, ...]
    outcome: Outcome
    reasons: tuple[str, ...]
    ratio_to_baseline: Estimate | None = None
    """Measured candidate / baseline step time: the product of ratios along the incumbents."""
    replayed: UpdatesReplayed | None = None
    """What the verdict `update_parity` was drawn from; None where the trial did not lead."""


class Reserved(Record):
    """What was kept of the budget for what follows the search, as it ended; the bill holds it against what was used.

    Example: a launch of 4.0 s, eleven stages, 5 pairs of training runs::

        Reserved(signature="3fa9c1", waterfall_s=110, reward_s=155, confirm_s=140, start_up_s=4.0, wall_left_s=430)
    """

    kind: Literal["reserved"] = "reserved"
    signature: str
    """Of the winner's change."""
    waterfall_s: float
    """0 where it was measured before."""
    reward_s: float
    """0 where the change owes no reward test."""
    confirm_s: float
    start_up_s: float
    """Seconds from a launch to its first step, as measured until then."""
    wall_left_s: float
    """Wall seconds that the budget had left."""


class RewardTested(Record):
    """Paired training runs of baseline and candidate: held-out reward at start and end, same seed order."""

    kind: Literal["reward_tested"] = "reward_tested"
    signature: str
    num_planned: int | None = None
    """Pairs that were to be run, of which its share of the budget may have ended some; None where none was."""
    start_S: tuple[float, ...]
    baseline_S: tuple[float, ...]
    candidate_S: tuple[float, ...]
    equal_time_step: int | None = None
    """Step at which the baseline has spent the device time of the candidate's whole run; None where nobody asked."""
    baseline_equal_S: tuple[float, ...] = ()
    """The baseline's reward there."""
    baseline_truncated_S: tuple[float, ...]
    candidate_truncated_S: tuple[float, ...]
    baseline_len_S: tuple[float, ...] = ()
    """Mean completion length on the held-out problems at the end, tokens."""
    candidate_len_S: tuple[float, ...] = ()
    baseline_k3_SK: tuple[tuple[float, ...], ...] = ()
    """Same-weights gap of every training step that has one, nats; K = step."""
    candidate_k3_SK: tuple[tuple[float, ...], ...] = ()
    verdicts: tuple[Verdict, ...]
    cost_wall_s: float
    cost_device_s: float


class WaterfallStep(Record):
    """One lever added on top of those before it."""

    added: str
    """The move, for example ``layout: padded -> packed``; ``baseline`` for the first row."""
    step_time: Estimate
    """Measured in the same interleaved run as every other row."""
    ratio_to_previous: Estimate | None
    ratio_to_baseline: Estimate | None = None
    signature: str = ""
    """Signature of the cumulative change, which finds its forecast."""


class Waterfall(Record):
    """Cumulative configurations from baseline to winner, measured interleaved."""

    kind: Literal["waterfall"] = "waterfall"
    rows: tuple[WaterfallStep, ...]
    cost_wall_s: float
    cost_device_s: float


class Confirmed(Record):
    """Fresh launches of baseline, best practice and winner, not used for selection."""

    kind: Literal["confirmed"] = "confirmed"
    signature: str
    arms: tuple[Arm, ...]
    speedup: Estimate
    """Baseline / winner."""
    speedup_over_best_practice: Estimate | None
    raw_speedup: Estimate | None
    """The same with natural lengths; None where there was no time left for them."""
    natural: tuple[Arm, ...] = ()
    """``baseline`` and ``candidate`` of that: the same problems and dice, lengths as they come."""
    verdicts: tuple[Verdict, ...] = ()
    """Guards over the steps of these arms."""
    holds_for: Range | None = None
    """Lengths it was confirmed at and the forecast beyond them."""
    objectives: tuple[ObjectiveGain, ...] = ()
    """The same launches in every objective, the job's and the other."""
    alternate_because: str = ""
    """See `core.trial.Trial`: of these arms."""
    cost_wall_s: float
    cost_device_s: float


class ConfirmationFailed(Record):
    """The winner died in its confirmation, so nothing is confirmed; a baseline that dies there ends the session."""

    kind: Literal["confirmation_failed"] = "confirmation_failed"
    signature: str
    state: TrialState
    """Out of memory, or failed."""
    cause: str
    cost_wall_s: float
    cost_device_s: float


class Decided(Record):
    """The decision."""

    kind: Literal["decided"] = "decided"
    decision: Decision


class SessionEnded(Record):
    """The last event."""

    kind: Literal["session_ended"] = "session_ended"
    why: str
    """``done``, or the error that ended it."""
    cost_wall_s: float
    cost_device_s: float


Event = Annotated[
    SessionStarted
    | SessionResumed
    | Profiled
    | Diagnosed
    | Proposed
    | Forecasted
    | HalfReplayed
    | TrialStarted
    | Screened
    | TrialEnded
    | Reserved
    | RewardTested
    | Waterfall
    | Confirmed
    | ConfirmationFailed
    | Decided
    | SessionEnded,
    Field(discriminator="kind"),
]
