"""A trial: a real run of the changed job against the incumbent, and what was observed."""

from enum import StrEnum

from steptune.core.arrival import Arrival
from steptune.core.change import Change
from steptune.core.estimate import Estimate
from steptune.core.profile import GapStats, LagStats
from steptune.core.records import Record


class TrialState(StrEnum):
    """Life of a trial.

    ::

        PLANNED --launch--> RUNNING --all blocks done--> FINISHED
                               |---- cannot win any more, or breaks a limit --> STOPPED
                               |---- out of memory ----> OUT_OF_MEMORY
                               |---- died, hung, NaN --> FAILED
                               '---- session killed ---> ABANDONED  (found at --resume; run again)

    FINISHED, STOPPED and OUT_OF_MEMORY are results and are never repeated.
    """

    PLANNED = "planned"
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"
    ABANDONED = "abandoned"

    @property
    def is_terminal(self) -> bool:
        """Whether the trial has a result that must not be produced twice."""
        return self in (TrialState.FINISHED, TrialState.STOPPED, TrialState.OUT_OF_MEMORY, TrialState.FAILED)


class SpanTime(Record):
    """Seconds one role spent in one phase during one step: ``("rollout", "rollout/decode", "busy", 0.41)``."""

    role: str
    phase: str
    kind: str
    seconds: float


class QueueCount(Record):
    """What became of everything a rollout that is ahead of its step made since the run began: nothing is lost.

    Example: ``QueueCount(generated=80, trained=64, dropped=0, buffered=16)``.
    """

    generated: int
    trained: int
    dropped: int
    """Too old when their turn came."""
    buffered: int
    """Waiting for the trainer; with partial rollouts also what unfinished rows have said."""

    @property
    def is_conserved(self) -> bool:
        """Whether generated = trained + dropped + buffered."""
        return self.generated == self.trained + self.dropped + self.buffered


class QueueStats(Record):
    """The queue between rollout and trainer as a step took its groups, and the age of what it took."""

    groups: QueueCount
    tokens: QueueCount
    """Completion tokens."""
    lag_mean: float
    """Mean age of the trained tokens, in updates; the oldest is the observation's `lag_max`."""

    @property
    def length_bias(self) -> float | None:
        """Mean length of the rows trained on over that of all rows made: below 1 where short ones come first.

        Groups are of one size, so tokens per group compare. Unfinished rows count with what they have said.

        Example: 64 groups trained of 2,240 tokens in all, 80 made of 3,200 (40 a group): 35 / 40 = 0.875.
        """
        if not self.groups.trained or not self.tokens.generated:
            return None
        return (self.tokens.trained / self.groups.trained) / (self.tokens.generated / self.groups.generated)


class Observation(Record):
    """One step as it happened. Missing metrics are None, broken ones NaN; neither ever passes a guard."""

    step: int
    step_time_s: float
    wall_by_role_s: dict[str, float]
    """Wall time of each role that belongs to this step."""
    spans: tuple[SpanTime, ...]
    prompt_tokens: int
    completion_tokens: int
    padded_tokens: int
    """Positions computed by the trainer's forward, padding included."""
    decode_iterations: int
    num_rollouts: int
    completion_len_p50: float
    completion_len_max: int
    truncated_frac: float | None
    reward_mean: float | None
    mixed_groups_frac: float | None
    entropy: float | None
    grad_norm: float | None
    loss: float | None
    mismatch: GapStats | None
    """Same weights: rollout kernels against trainer kernels."""
    off_policy: tuple[LagStats, ...] = ()
    lag_max: int
    """Oldest trained token, in updates behind the weights it was trained on; of every update of the step."""
    memory_peak_bytes: int | None
    """Peak resident memory of all processes of the run so far."""
    weight_version: int
    """Trainer's version after the step."""
    queue: QueueStats | None = None
    """Asynchronous runs and partial rollouts only."""
    zero_advantage_frac: float | None = None
    """Rows whose advantage is 0: they add nothing to the policy's gradient. At 1 only momentum, weight decay and a KL
    term moved the weights."""
    arrivals: tuple[Arrival, ...] = ()
    """What every replica held after the hand-over before this step's rollouts; empty where nobody looked."""
    router_agreement_frac: float | None = None
    """Experts of the rollout that the trainer's own router would have chosen too, 0..1; None where routes were not
    recorded, or there are no experts."""
    num_compiled: int | None = None
    """Graphs that the trainer compiled during this step, on all ranks; None where it does not compile. Above 0 the step
    is no measurement of what later ones take."""


class EvalResult(Record):
    """Accuracy on the fixed held-out problems at the training temperature."""

    step: int
    accuracy: float
    greedy_accuracy: float | None = None
    num_problems: int
    truncated_frac: float
    completion_len_mean: float


class Arm(Record):
    """One configuration's observations inside a trial."""

    label: str
    """``baseline``, ``incumbent``, ``candidate``, or ``watched``: steps of the candidate that guards alone count."""
    signature: str
    """Signature of its change (empty change for the baseline)."""
    observations: tuple[Observation, ...]
    """Counted steps only: warm-up and rehearsals are left out."""


class Trial(Record):
    """The record of one trial.

    Example: packing against the baseline, 4 blocks of 3 steps each, ratio 0.71 (0.69 to 0.73).
    """

    number: int
    change: Change
    state: TrialState
    arms: tuple[Arm, ...] = ()
    ratio: Estimate | None = None
    """Candidate / incumbent at equal lengths, 95 % interval over paired blocks, of the job's objective: step time, or
    device-seconds per step (`devices_ratio` times the step times')."""
    devices_ratio: float = 1.0
    """Devices of the candidate over those of the incumbent where the objective counts them, else 1."""
    step_ratio: Estimate | None = None
    """Step time / the baseline's where the objective counts devices: a longer step is not adopted. Else None."""
    incumbent_signature: str = ""
    step_time: Estimate | None = None
    """Candidate's own step time."""
    cost_wall_s: float = 0.0
    cost_device_s: float = 0.0
    """Core-seconds of everything from its start to its result: replays, start-ups and warm-ups of both arms."""
    load_avg: float | None = None
    cause: str = ""
    """Why it was stopped or failed."""
    alternate_because: str = ""
    """Why every block was a launch of its own, one arm at a time; empty where both arms were up and took turns."""
