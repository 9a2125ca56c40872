"""Answers made by hand: a trainer-bound verl job with everything in it, and inputs that say little."""

from steptune.core.estimate import Estimate, Source
from steptune.core.finding import (
    Diagnosis,
    Evidence,
    Finding,
    FindingKind,
    Neighbour,
    PhaseRow,
    Remedy,
    Severity,
)
from steptune.core.paste import DeviceClaim, Paste, Series, SeriesPoint, Setting
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import Origin, PhaseTime, Profile, RoleProfile, SummaryLengths

LOG = "logs/run.log"
SCRIPT = "logs/run.sh"


def seconds(value: float, source: Source = Source.MEASURED, n: int | None = None) -> Estimate:
    return Estimate(value=value, unit="s", source=source, n=n)


def share(value: float) -> Estimate:
    return Estimate(value=value, unit="frac", source=Source.DERIVED)


def origin(line: int, key: str, path: str = LOG) -> Origin:
    return Origin(path=path, line=line, key=key)


def trainer_profile() -> Profile:
    """18,837 s: update_actor 16,783, gen 1,210, old_log_prob 420, reward 60, 364 unattributed."""
    phases = (
        PhaseTime(
            role=Role.TRAINER,
            phase="rollout",
            kind=SpanKind.EXPOSED_WAIT,
            seconds=seconds(1210.0),
            origin=origin(12, "timing_s/gen"),
        ),
        PhaseTime(
            role=Role.TRAINER,
            phase="old_logprob",
            kind=SpanKind.BUSY,
            seconds=seconds(420.0),
            origin=origin(12, "timing_s/old_log_prob"),
        ),
        PhaseTime(
            role=Role.TRAINER,
            phase="train",
            kind=SpanKind.BUSY,
            seconds=seconds(16783.0),
            origin=origin(12, "timing_s/update_actor"),
        ),
    )
    return Profile(
        framework="verl",
        framework_version="0.4.1",
        step_time=seconds(18837.0, n=3),
        roles=(RoleProfile(role=Role.TRAINER, num_devices=8, wall_s=18837.0, phases=phases),),
        lengths=SummaryLengths(prompt_mean=190.0, completion_mean=5200.0, completion_max=8192.0, clipped_frac=0.31),
        num_steps=3,
        num_warmup=1,
        missing=("reward", "mismatch_k3"),
    )


def rows() -> tuple[PhaseRow, ...]:
    def row(phase: str, key: str, value: float, free: float | None, *, is_wait: bool = False) -> PhaseRow:
        return PhaseRow(
            role=Role.TRAINER,
            phase=phase,
            key=key,
            is_wait=is_wait,
            seconds=seconds(value, Source.DERIVED if phase == "unattributed" else Source.MEASURED),
            share=value / 18837.0,
            s_per_1k_tokens=value / 5520.0,
            if_free=None if free is None else seconds(free, Source.DERIVED),
        )

    return (
        row("rollout", "timing_s/gen", 1210.0, 17627.0, is_wait=True),
        row("old_logprob", "timing_s/old_log_prob", 420.0, 18417.0),
        row("train", "timing_s/update_actor", 16783.0, 2054.0),
        row("unattributed", "", 424.0, None),
    )


def bottleneck() -> Finding:
    return Finding(
        code="trainer_bound",
        kind=FindingKind.BOTTLENECK,
        severity=Severity.WARNING,
        title="update_actor takes 89.1 % of the step",
        evidence=(Evidence(text="`timing_s/update_actor` 16,783 s of 18,837 s", origin=origin(12, "x")),),
        remedies=(
            Remedy(
                text="balance the micro batches by tokens",
                lines=("actor_rollout_ref.actor.use_dynamic_bsz=True",),
                source="https://example.org/docs",
            ),
            Remedy(text="train on shorter answers", keeps_algorithm=False, step_time=seconds(9000.0, Source.FORECAST)),
        ),
        share=share(0.891),
        ceiling=seconds(2054.0, Source.DERIVED),
    )


def finding(code: str, kind: FindingKind, severity: Severity, title: str, **more: object) -> Finding:
    return Finding.model_validate({"code": code, "kind": kind, "severity": severity, "title": title, **more})


def others() -> tuple[Finding, ...]:
    evidence = (Evidence(text="`response_length/clip_ratio` is 0.31", origin=origin(14, "clip")),)
    remedy = (Remedy(text="let the batch divide", lines=("data.train_batch_size=256",), keeps_algorithm=False),)
    return (
        finding("health/truncation", FindingKind.HEALTH, Severity.FAULT, "31 % of answers are cut", evidence=evidence),
        bottleneck(),
        finding(
            "lint/verl/batch", FindingKind.LINT, Severity.WARNING, "the batch does not divide by 7", remedies=remedy
        ),
        finding("oom/logits", FindingKind.MEMORY, Severity.WARNING, "the logits did not fit", evidence=evidence),
        finding("implausible/mfu", FindingKind.IMPLAUSIBLE, Severity.WARNING, "an MFU of 1.018 cannot be true"),
        finding("no_reward", FindingKind.NO_CLAIM, Severity.INFO, "no reward is logged: the reward test cannot pass"),
    )


def full() -> Diagnosis:
    """Everything at once."""
    lengths = Series(
        name="completion_mean",
        key="response_length/mean",
        points=tuple(SeriesPoint(step=s, value=5000.0 + 100 * s, line=10 + s) for s in range(4)),
        path=LOG,
    )
    paste = Paste(
        paths=(LOG, SCRIPT),
        framework="verl",
        framework_version="0.4.1",
        settings=(
            Setting(key="data.train_batch_size", value=255, text="255", layer="override", origin=origin(4, "", SCRIPT)),
        ),
        series=(lengths,),
        devices=DeviceClaim(name="H100", count=8, memory_gib=80.0, origin=origin(2, "")),
        profile=trainer_profile(),
        num_steps_seen=4,
        num_lines=20,
    )
    return Diagnosis(
        paste=paste,
        phases=rows(),
        findings=others(),
        cannot_help=("faster generation: at most 6.4 %, 17,627 s of 18,837 s",),
        neighbours=(
            Neighbour(
                run_id="dapo-32b",
                source="https://example.org/run",
                framework="verl",
                model="Qwen2.5-32B",
                gpus="128 x H20",
                step_time_s=790.0,
                tokens_per_s_per_gpu=310.5,
                differs=("group_size 16 (yours 8)",),
            ),
        ),
        switch_on=("trainer.logger=['console']",),
    )


def nothing() -> Diagnosis:
    """No file said anything."""
    return Diagnosis(paste=Paste(paths=("empty.txt",)))


def config_only() -> Diagnosis:
    """A script, no log: nothing may be claimed about speed."""
    held = full()
    paste = held.paste.model_copy(update={"profile": None, "num_steps_seen": 0, "series": (), "paths": (SCRIPT,)})
    gap = finding("no_timing", FindingKind.NO_CLAIM, Severity.INFO, "no timing in this input")
    lint = finding("lint/any/blocking", FindingKind.LINT, Severity.FAULT, "CUDA_LAUNCH_BLOCKING is on")
    return Diagnosis(paste=paste, findings=(lint, gap), switch_on=("trainer.logger=['console','tensorboard']",))
