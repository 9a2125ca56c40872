"""Findings: what a log or a configuration says about itself, in one form for every kind of answer."""

from enum import StrEnum

from steptune.core.bottleneck import Bottleneck
from steptune.core.estimate import Estimate
from steptune.core.paste import Paste
from steptune.core.phase import Role
from steptune.core.profile import Origin
from steptune.core.records import Record


class FindingKind(StrEnum):
    """What a finding is about."""

    BOTTLENECK = "bottleneck"
    """Where the time goes."""
    LINT = "lint"
    """A fault or a smell in the configuration."""
    MEMORY = "memory"
    """Out of memory, its growth or its limits."""
    HEALTH = "health"
    """The training itself is sick: fix this first."""
    MISMATCH = "mismatch"
    """Trainer and rollout disagree, or the measure of it misleads."""
    IMPLAUSIBLE = "implausible"
    """A number in the input that cannot be true or is easily misread."""
    NO_CLAIM = "no_claim"
    """Something that cannot be said from this input, and what would allow it."""


class Severity(StrEnum):
    """How much it matters."""

    FAULT = "fault"
    """Fails, or trains something else than was meant."""
    WARNING = "warning"
    """Costs time or memory, or misleads."""
    INFO = "info"
    """Good to know."""


class Evidence(Record):
    """A fact behind a finding: ``Evidence(text="update_actor 16,783 s of 18,837 s", origin=Origin(...))``."""

    text: str
    origin: Origin | None = None


class Remedy(Record):
    """One thing to do.

    Example: ``Remedy(text="give the rollout more memory", lines=("...rollout.gpu_memory_utilization=0.8",))``
    """

    text: str
    """What to do and why, one sentence."""
    lines: tuple[str, ...] = ()
    """The change in the user's own configuration language, ready to paste; empty when there is no key for it."""
    keeps_algorithm: bool = True
    """False when it changes what is trained (batch, group size, lengths, learning rate): never a speed-up."""
    step_time: Estimate | None = None
    """Step time with it, forecast or ceiling, in seconds; None where the data do not allow a number."""
    source: str = ""
    """Where the advice comes from."""


class Finding(Record):
    """One answer.

    ``code`` is stable and what tests and scripts look for: ``rollout_bound``, ``oom/logits``,
    ``lint/verl/micro_batch_ignored``, ``no_timing``.
    """

    code: str
    kind: FindingKind
    severity: Severity
    title: str
    """One sentence that stands alone."""
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    share: Estimate | None = None
    """Part of the step it accounts for."""
    ceiling: Estimate | None = None
    """Step time in seconds if this cost were zero."""


class PhaseRow(Record):
    """One row of the phase table."""

    role: Role
    phase: str
    """Canonical, or parent/child."""
    key: str
    """As the log spells it; empty for unattributed time."""
    is_wait: bool
    seconds: Estimate
    share: float | None
    """Part of the role's wall time, 0..1; None where the step itself is not timed."""
    s_per_1k_tokens: float | None = None
    """Seconds per 1,000 tokens of the step; None when the tokens are unknown."""
    if_free: Estimate | None = None
    """Step time in seconds if this row took nothing; None for rows that do not lengthen the step."""


class Neighbour(Record):
    """A published run near this one, and what differs."""

    run_id: str
    source: str
    framework: str
    model: str
    gpus: str
    step_time_s: float | None
    tokens_per_s_per_gpu: float | None
    differs: tuple[str, ...]
    """``group_size 16 (yours 8)``."""


class Diagnosis(Record):
    """Everything `diagnose` answers."""

    paste: Paste
    phases: tuple[PhaseRow, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Faults first; inside a severity the largest share first."""
    cannot_help: tuple[str, ...] = ()
    """Levers that are worth less than a few percent here, each with its ceiling in the sentence."""
    neighbours: tuple[Neighbour, ...] = ()
    switch_on: tuple[str, ...] = ()
    """Exact flags or lines that would print what is missing."""

    def codes(self) -> frozenset[str]:
        """Return the codes of all findings."""
        return frozenset(finding.code for finding in self.findings)
