"""Comparisons made by hand: a speed-up that came from less work, one that is real, and one without anything."""

from steptune.core.comparison import Comparison, PhaseChange, SettingDifference, SpeedVerdict, WorkDifference
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.profile import Origin


def ratio(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high, unit="x", source=Source.DERIVED)


def less_work() -> Comparison:
    """-27 % per step with four answers a prompt instead of five: +9 % tokens per second, one step each."""
    evidence = (
        Evidence(text="100.2 GiB on a card of 80 GiB", origin=Origin(path="a/run.log", line=3, key="m")),
        Evidence(text="the same", origin=Origin(path="b/run.log", line=4, key="m")),
    )
    return Comparison(
        verdict=SpeedVerdict.NO_PROOF,
        reason="the work differs, and one step each cannot show a change of 9 %",
        raw_step_ratio=ratio(1.37),
        throughput_ratio=ratio(1.094),
        work=(
            WorkDifference(what="completion length", a=812.0, b=790.0, unit="tokens", is_declared=False),
            WorkDifference(what="group size", a=5.0, b=4.0, is_declared=True),
            WorkDifference(what="prompts per step", a=256.0, b=None, is_declared=True),
        ),
        settings=(
            SettingDifference(key="rollout.gpu_memory_utilization", a=0.5, b=0.7, touches="none"),
            SettingDifference(key="rollout.n", a=5, b=4, touches="algorithm"),
            SettingDifference(key="rollout.logger", a=("console", True), a_is_default=True, b=None, touches="unknown"),
        ),
        versions=("0.4.0", "0.4.1"),
        phases=(
            PhaseChange(
                phase="rollout", a_s=120.0, b_s=80.0, a_s_per_1k=0.1, b_s_per_1k=0.09, ratio=ratio(1.1, 1.0, 1.2)
            ),
            PhaseChange(phase="train", a_s=60.0, b_s=50.0),
        ),
        findings=(
            Finding(
                code="implausible/memory",
                kind=FindingKind.IMPLAUSIBLE,
                severity=Severity.WARNING,
                title="more memory than the card has",
                evidence=evidence,
            ),
        ),
        settle=("five interleaved steps of each at rollout.n=5",),
    )


def faster() -> Comparison:
    """The least that says faster."""
    return Comparison(
        verdict=SpeedVerdict.FASTER, reason="1.5 x at the same work", throughput_ratio=ratio(1.5, 1.4, 1.6)
    )


def empty() -> Comparison:
    """Nothing could be read."""
    return Comparison(verdict=SpeedVerdict.NO_PROOF, reason="no timing on either side")
