"""The job: what is trained, on what, under whose limits, and how much may be spent on tuning it.

Everything under `model`, `workload`, `sft` and `algorithm` is *declared work*: the tuner never touches it.
`limits` belong to the owner: the tuner never raises one. `knobs` says what may move.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from steptune.core.knob import KnobValue
from steptune.core.model import DenseModel, ModelSpec
from steptune.core.records import Record

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


PROBLEM = "{problem}"
"""Stands for the problem in `workload.prompt`."""


class MathWorkload(Record):
    """Procedurally generated arithmetic and word problems with integer answers."""

    kind: Literal["math"] = "math"
    levels: tuple[PositiveInt, ...] = (1, 2, 3)
    """Difficulty levels drawn from, uniformly."""
    num_validation: PositiveInt = 2000
    """Fixed held-out problems, disjoint from training by construction."""
    seed: int = 1
    """Seed of the problem stream."""
    prompt: str = PROBLEM
    """The prompt of a pretrained model: `{problem}` stands for the problem; what it does not know by heart (the mark
    `#` before the answer) can be said or shown here. The engine's own vocabulary knows the problem alone."""
    constant_reward: float | None = None
    """Replaces the verifier by a constant; for testing what happens to a run that cannot learn."""


class SftSpec(Record):
    """Supervised warm start on demonstrations, before any RL."""

    num_steps: Annotated[int, Field(ge=0)] = 1000
    batch_size: PositiveInt = 24
    lr: PositiveFloat = 1.2e-3
    label_smoothing: Fraction = 0.05
    """Probability spread over all tokens. It keeps the start undecided (at the defaults 0.5 of the held-out
    problems when sampling, 0.9 when greedy), which is what RL then learns to decide."""
    seed: int = 1


class LossAggregation(StrEnum):
    """How token losses become one number."""

    TOKEN_MEAN = "token_mean"
    """Sum over tokens / active tokens of the whole optimizer batch (DAPO; TRL `dapo`)."""
    SEQ_MEAN_TOKEN_MEAN = "seq_mean_token_mean"
    """Mean over sequences of the mean over tokens (GRPO)."""
    SEQ_MEAN_TOKEN_SUM_NORM = "seq_mean_token_sum_norm"
    """Sum over tokens / (sequences x `max_completion_len`) (Dr.GRPO)."""


CorrectionKind = Literal["none", "tis", "mis", "band", "sequence_tis", "sequence_mis"]
"""`tis` truncates the token weight at `cap`; `mis` zeroes tokens whose weight exceeds `cap`; `band` also those below
`floor`; `sequence_...` do so with the product over the row (see `engine/correction.py`)."""

KlForm = Literal["k1", "k2", "k3", "abs"]
"""Estimators of the KL term (see `engine/policy_loss.py` for value and gradient of each)."""


class Correction(Record):
    """Importance-sampling correction of rollout log-probs against the trainer's."""

    kind: CorrectionKind = "none"
    cap: PositiveFloat = 2.0
    floor: Annotated[float, Field(ge=0)] = 0.5
    """Read by `band` only."""


class AlgorithmSpec(Record):
    """GRPO, DAPO or Dr. GRPO with every usual setting; what a job file leaves out is then filled in, visibly.

    DAPO = token mean, clip-higher, dynamic sampling, soft overlong; Dr. GRPO = a constant length in the place of each
    row's own, advantages not divided by a standard deviation.
    """

    kind: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    prompts_per_step: PositiveInt = 32
    group_size: Annotated[int, Field(ge=2)] = 8
    """Rollouts per prompt."""
    max_completion_len: PositiveInt = 40
    """Tokens, end-of-sequence included."""
    temperature: PositiveFloat = 1.0
    lr: PositiveFloat = 1e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: PositiveFloat = 1.0
    num_updates: PositiveInt = 1
    """Optimizer steps per rollout batch (mini-batches)."""
    clip_low: PositiveFloat = 0.2
    clip_high: PositiveFloat = 0.2
    dual_clip: PositiveFloat | None = None
    """Upper bound on the ratio for negative advantages (verl `clip_ratio_c`, TRL `delta`)."""
    loss_aggregation: LossAggregation = LossAggregation.TOKEN_MEAN
    scale_advantage: Literal["group", "batch", "none"] = "group"
    kl_coef: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the KL term to the SFT start; 0 means no reference pass."""
    kl_form: KlForm = "k3"
    dynamic_sampling: bool = False
    """Drop groups whose raw rewards are all equal and sample more prompts."""
    max_sampling_rounds: PositiveInt = 3
    """Rounds of generation before dynamic sampling gives up and trains on what it has."""
    overlong_buffer_len: Annotated[int, Field(ge=0)] = 0
    """Soft punishment zone before the length limit, in tokens; 0 is off."""
    overlong_penalty: Annotated[float, Field(ge=0)] = 1.0
    mask_truncated: bool = False
    """Leave truncated completions out of the loss."""
    correction: Correction = Correction()
    seed: int = 1

    @property
    def rollouts_per_step(self) -> int:
        """Sequences per step: prompts x group size."""
        return self.prompts_per_step * self.group_size


class CpuDevices(Record):
    """Cores of this machine."""

    kind: Literal["cpu"] = "cpu"
    num_cores: PositiveInt = 2


class Objective(StrEnum):
    """What the tuner makes small."""

    STEP_TIME = "step_time"
    DEVICE_SECONDS_PER_STEP = "device_seconds_per_step"


class LimitsSpec(Record):
    """The owner's limits. A change that breaks one does not leave the tool."""

    max_staleness: Annotated[int, Field(ge=0)] = 0
    """Largest allowed age of a trained token's weights, in optimizer updates beyond the algorithm's own."""
    allow_corrections: bool = False
    """Whether a change may carry an importance-sampling correction that it needs."""
    allow_other_updates: bool = False
    """Whether a change that is labelled *none*, but makes other updates than the baseline beyond rounding, may be tuned
    as one of *precision*, which owes a reward test."""
    max_mismatch_k3: PositiveFloat = 1e-3
    """Largest mean k3 between rollout and trainer at the same weights, in nats per token."""
    memory_headroom_frac: Fraction = 0.2
    """Part of the machine's memory that must stay free."""
    reward_margin: PositiveFloat = 0.03
    """Largest acceptable fall of the final held-out reward."""


class BudgetSpec(Record):
    """What tuning may cost. Never exceeded by more than the step that was running."""

    max_trials: PositiveInt = 8
    device_time_s: PositiveFloat = 1100.0
    """Core-seconds of trials, profile and guards together."""
    wall_time_s: PositiveFloat = 560.0


class KnobsSpec(Record):
    """Which knobs may move. An empty `allow` means every knob of the framework."""

    allow: tuple[str, ...] = ()
    pin: dict[str, KnobValue] = {}
    """Knobs fixed by the owner, for the baseline and every candidate alike."""


class GuardSpec(Record):
    """How much evidence the reward guard gathers."""

    reward_seeds: Annotated[int, Field(ge=2)] = 5
    """Paired seeds, each trained once as baseline and once as candidate."""
    reward_steps: PositiveInt = 40
    """RL steps of each of those runs."""


class JobSpec(Record):
    """One RL post-training job and the terms on which it may be tuned.

    Example: `examples/math-dense.toml`, resolved.
    """

    name: str
    framework: Literal["embedded", "fake"] = "embedded"
    baseline: Literal["default", "best_practice", "expert"] = "default"
    """Start to tune from; printed lever by lever."""
    model: ModelSpec = DenseModel()
    workload: MathWorkload = MathWorkload()
    sft: SftSpec = SftSpec()
    algorithm: AlgorithmSpec = AlgorithmSpec()
    devices: CpuDevices = CpuDevices()
    objective: Objective = Objective.STEP_TIME
    limits: LimitsSpec = LimitsSpec()
    budget: BudgetSpec = BudgetSpec()
    guard: GuardSpec = GuardSpec()
    knobs: KnobsSpec = KnobsSpec()
