"""Logs as the step model is asked about them: real posts, and a synthetic one whose every fact is stated."""

from functools import cache
from pathlib import Path

from steptune.core.estimate import Estimate, Source
from steptune.core.paste import DeviceClaim, Paste
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import Origin, PhaseTime, Profile, RoleProfile, SummaryLengths, WorkSignature
from steptune.readers.read_paste import read_paste

POSTS = Path(__file__).parents[2] / "pasted" / "fixtures"


@cache
def post(name: str) -> Paste:
    """Return a posted log."""
    return read_paste([POSTS / f"{name}.txt"])


def seconds(value: float) -> Estimate:
    return Estimate(value=value, unit="s", source=Source.MEASURED, n=1)


def span(role: Role, phase: str, value: float, *, waits: bool = False, line: int = 1) -> PhaseTime:
    kind = SpanKind.EXPOSED_WAIT if waits else SpanKind.BUSY
    origin = Origin(path="run.log", line=line, key=phase)
    return PhaseTime(role=role, phase=phase, kind=kind, seconds=seconds(value), origin=origin)


def log(
    *,
    schedule: str = "sync",
    step_s: float = 100,
    rollout_s: float = 60,
    train_s: float = 30,
    devices: int | None = 8,
    held: tuple[int, int] | None = None,
) -> Paste:
    """32 prompts of 8 rollouts on 8 devices that take turns: 60 s of generation, 30 s of training, 10 s of the rest."""
    train, rollout = held or (None, None)
    profile = Profile.model_validate(
        {
            "framework": "verl",
            "schedule": schedule,
            "placement": "disaggregated" if held else "colocated",
            "work": WorkSignature(prompts_per_step=32, group_size=8),
            "step_time": seconds(step_s),
            "roles": (
                RoleProfile(
                    role=Role.TRAINER,
                    num_devices=train,
                    wall_s=step_s,
                    phases=(
                        span(Role.TRAINER, "train", train_s, line=3),
                        span(Role.TRAINER, "rollout", rollout_s, waits=True, line=2),
                    ),
                ),
                RoleProfile(
                    role=Role.ROLLOUT,
                    num_devices=rollout,
                    num_replicas=rollout or devices,
                    wall_s=step_s,
                    phases=(span(Role.ROLLOUT, "rollout", rollout_s, line=2),) if rollout_s else (),
                ),
            ),
            "lengths": SummaryLengths(prompt_mean=100, completion_mean=1000, completion_max=4096, clipped_frac=0.02),
            "num_steps": 5,
        }
    )
    origin = Origin(path="run.log", line=9, key="gpus")
    claim = None if devices is None else DeviceClaim(count=devices, origin=origin)
    return Paste(paths=("run.log",), framework="verl", profile=profile, devices=claim, num_steps_seen=5, num_lines=9)
