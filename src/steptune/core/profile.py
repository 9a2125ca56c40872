"""A profile: where one configuration's step goes, per role, with its noise floor.

The same record holds a profile measured by the embedded engine and one read off a pasted log; what
a log does not say is None and listed in `missing`, never zero.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.estimate import Estimate
from steptune.core.knob import KnobValue
from steptune.core.phase import Role, SpanKind, is_child
from steptune.core.records import Record


class Origin(Record):
    """Where a value was read: ``Origin(path="run.log", line=12, key="timing_s/gen")``."""

    path: str
    line: int
    key: str


class PhaseTime(Record):
    """Seconds per step that one role spends in one phase.

    Example: a trainer of an asynchronous job that waits 32.5 s for samples::

        PhaseTime(role=Role.TRAINER, phase="rollout", kind=SpanKind.EXPOSED_WAIT, seconds=Estimate(...))
    """

    role: Role
    phase: str
    """Canonical phase or ``parent/child``; a child's time is inside its parent's."""
    kind: SpanKind
    seconds: Estimate
    """Per step."""
    origin: Origin | None = None


class RoleProfile(Record):
    """One role's wall time. Busy + waiting + unattributed = wall (see `check_conservation`)."""

    role: Role
    num_replicas: int | None = None
    """Copies of the role that work side by side; None when unknown."""
    num_devices: float | None = None
    """Devices the role holds, fractions allowed; None when unknown."""
    wall_s: float
    """Wall time of the role per step."""
    phases: tuple[PhaseTime, ...]

    def busy_s(self) -> float:
        """Seconds per step of top-level busy phases."""
        return self._total(SpanKind.BUSY)

    def wait_s(self) -> float:
        """Seconds per step of measured waiting."""
        return self._total(SpanKind.EXPOSED_WAIT)

    def unattributed_s(self) -> float:
        """Wall time that no top-level span covers."""
        return self.wall_s - self.busy_s() - self.wait_s()

    def _total(self, kind: SpanKind) -> float:
        return sum(p.seconds.value for p in self.phases if p.kind is kind and not is_child(p.phase))


class SampledLengths(Record):
    """Completion lengths of single samples, in tokens: the richest form."""

    kind: Literal["samples"] = "samples"
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    """Same order as `prompt`; one entry per rollout."""
    rollouts_per_step: int
    """Consecutive entries that make one step, groups kept whole."""


class SummaryLengths(Record):
    """Lengths as logs give them: mean, maximum and the share that hit the limit."""

    kind: Literal["summary"] = "summary"
    prompt_mean: float | None = None
    completion_mean: float | None = None
    completion_max: float | None = None
    clipped_frac: float | None = None


Lengths = Annotated[SampledLengths | SummaryLengths, Field(discriminator="kind")]


class WorkSignature(Record):
    """Declared work of one step: must be equal before two step times may be compared."""

    prompts_per_step: int | None = None
    group_size: int | None = None
    max_completion_len: int | None = None
    num_updates: int | None = None


class GapStats(Record):
    """How far two log-prob vectors of the same tokens are apart, per active token.

    Δ = log p_trainer - log p_rollout. With the rollout as sampler, k1 = mean(-Δ) and
    k3 = mean(exp(Δ) - 1 - Δ) estimate KL(rollout || trainer) (Schulman 2020,
    http://joschu.net/blog/kl-approx.html); `mult_prob_error` = mean exp|Δ| is NeMo RL's metric.
    """

    k1: float
    k3: float
    mean_abs: float
    max_abs: float
    mult_prob_error: float
    ess_frac: float
    """Effective sample size of the token weights exp(Δ): (Σw)² / (n Σw²), 1 is perfect."""
    num_tokens: int


class LagStats(Record):
    """Off-policyness at one lag: current weights against the weights that sampled."""

    lag: int
    """Optimizer updates between sampling and training."""
    gap: GapStats


class NoiseFloor(Record):
    """Spread of the step time when nothing is changed.

    Example: 2.1 % between steps of one launch, 1.3 % between the medians of two launches.
    """

    within_launch_cv: float
    """Coefficient of variation of step times inside one launch, warm-up dropped."""
    between_launch_frac: float
    """|median A - median A'| / mean of the two, from the A/A repeat."""
    aa_ratio: Estimate
    """Ratio of the two launches' step times, paired and interleaved as a trial would be."""
    num_steps: int
    """Steps behind it, both launches together."""


class PairSpread(Record):
    """How far the log ratios of pairs scatter, and how well that is known: ``PairSpread(sd=0.042, num_degrees=11)``."""

    sd: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Standard deviation of ln(candidate / incumbent) of a pair where nothing lies between the arms."""
    num_degrees: Annotated[int, Field(ge=1)]
    """Degrees of freedom behind it."""


class CurvePoint(Record):
    """Seconds at one size: ``CurvePoint(x=64, seconds=0.0031)`` for decoding 64 rows once."""

    x: float
    seconds: float


class CostCurve(Record):
    """Measured cost of one primitive at several sizes, under given settings.

    Example: one decode iteration, one thread, fp32, at 1, 16 and 256 running rows::

        CostCurve(name="decode", when={"rollout_threads": 1, "rollout_dtype": "fp32"}, unit="rows", points=(...))
    """

    name: str
    """Primitive: ``decode``, ``prefill``, ``train``, ``logprob``, ``optimizer``, ``handover`` ..."""
    when: dict[str, KnobValue]
    """Settings it was measured under; only knobs that change its cost."""
    unit: str
    """What `x` counts: rows, tokens, bytes."""
    points: tuple[CurvePoint, ...]
    """In increasing `x`."""


START_UP = "start_up"
"""Name of the curves of what a launch takes longer under some settings: one size, one launch. No step contains it."""


class Health(Record):
    """Signs of life of the training itself."""

    reward_mean: float | None = None
    mixed_groups_frac: float | None = None
    """Groups with at least two different rewards: the only ones that teach (0 = dead run)."""
    truncated_frac: float | None = None
    entropy: float | None = None
    has_nan: bool = False


class Profile(Record):
    """Where the step goes.

    Example: a synchronous embedded step of 1.02 s: trainer busy 0.47 s in `train`, waiting 0.55 s for
    `rollout`; rollout role the other way round; 0.4 % unattributed.
    """

    framework: str
    framework_version: str | None = None
    """As stated by the log or the installed package; None when unknown."""
    schedule: Literal["sync", "async"] = "sync"
    placement: Literal["colocated", "disaggregated"] | None = None
    settings: dict[str, KnobValue] = {}
    """Knob settings it was measured under, as far as they are known."""
    work: WorkSignature = WorkSignature()
    step_time: Estimate
    roles: tuple[RoleProfile, ...]
    lengths: Lengths = SummaryLengths()
    tokens_per_step: Estimate | None = None
    """Prompt and completion tokens."""
    tokens_per_device_s: Estimate | None = None
    mismatch: GapStats | None = None
    """Rollout against trainer at the same weights."""
    off_policy: tuple[LagStats, ...] = ()
    """Current against sampling weights, by lag."""
    staleness_mean: float | None = None
    """Mean age of trained samples in updates, those inside one rollout batch not counted; None when not stated."""
    health: Health = Health()
    memory_peak_bytes: Estimate | None = None
    noise: NoiseFloor | None = None
    """None for a pasted log: no claim may be made against it."""
    costs: tuple[CostCurve, ...] = ()
    """Primitive costs probed on the same machine in the same session."""
    num_steps: int
    """Steps averaged, warm-up dropped."""
    num_warmup: int = 0
    """Steps dropped as warm-up."""
    load_avg: float | None = None
    """One-minute load average when it started."""
    missing: tuple[str, ...] = ()
    """What the input did not say, by canonical name."""

    def role(self, role: Role) -> RoleProfile | None:
        """Return the profile of ``role``, or None if the job has no such role."""
        return next((r for r in self.roles if r.role is role), None)

    def busy(self, phase: str) -> float:
        """Busy seconds per step in ``phase``, all roles together."""
        return sum(
            p.seconds.value for role in self.roles for p in role.phases if p.phase == phase and p.kind is SpanKind.BUSY
        )


def unattributed_frac(profile: Profile) -> float:
    """Return the largest share of a role's wall time that no span covers (below zero: spans overlap)."""
    shares = [r.unattributed_s() / r.wall_s for r in profile.roles if r.wall_s > 0]
    return max(shares, key=abs, default=0.0)
