"""One small job whose forecast can be worked out by hand.

Curves: decode 1 ms + 0.1 ms a row beyond the first; prefill, train 0.1 ms a token; hand-over 20 ms.
Baseline plan (model seconds): prefill 0.1, decode 40 x 11 ms = 0.44, train 4 x 0.2 = 0.8.
Measured: prefill 0.12, decode 0.44, rest of rollout 0.04, train 1.0, reward 0.05, unattributed 0.01: step 1.66 s.
"""

from steptune.core.change import Change, Move
from steptune.core.estimate import Estimate, Source
from steptune.core.event import LearntFrom
from steptune.core.knob import Effect, Restart
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import CostCurve, CurvePoint, NoiseFloor, PhaseTime, Profile, RoleProfile
from steptune.core.work import PlannedWork, WorkItem

STEP_S = 1.66
TOTAL_BYTES = 10_000_000_000


def seconds(value: float) -> Estimate:
    return Estimate(value=value, unit="s", source=Source.MEASURED)


def busy(role: Role, phase: str, value: float) -> PhaseTime:
    return PhaseTime(role=role, phase=phase, kind=SpanKind.BUSY, seconds=seconds(value))


def curve(name: str, *points: tuple[float, float], **when: object) -> CostCurve:
    return CostCurve(name=name, when=dict(when), unit="x", points=tuple(CurvePoint(x=x, seconds=s) for x, s in points))


CURVES = (
    curve("decode", (1, 0.001), (101, 0.011), rollout_threads=2),
    curve("decode", (1, 0.0012), (101, 0.0122), rollout_threads=1),
    curve("prefill", (100, 0.01), (1100, 0.11)),
    curve("train", (1000, 0.1), (11000, 1.1), recompute=False),
    curve("handover", (1, 0.02)),
)


def profile(*, step_s: float = STEP_S, scale: float = 1.0, curve_scale: float = 1.0, **changes: object) -> Profile:
    """Return the measured baseline; `scale` multiplies every measured time, `curve_scale` every curve."""
    rollout = (
        busy(Role.ROLLOUT, "rollout", 0.6 * scale),
        busy(Role.ROLLOUT, "rollout/prefill", 0.12 * scale),
        busy(Role.ROLLOUT, "rollout/decode", 0.44 * scale),
    )
    trainer = (busy(Role.TRAINER, "train", 1.0 * scale),)
    controller = (busy(Role.CONTROLLER, "reward", 0.05 * scale),)
    roles = [(Role.ROLLOUT, rollout), (Role.TRAINER, trainer), (Role.CONTROLLER, controller)]
    made = Profile(
        framework="fake",
        step_time=seconds(step_s * scale),
        roles=tuple(RoleProfile(role=role, wall_s=step_s * scale, phases=phases) for role, phases in roles),
        memory_peak_bytes=Estimate(value=1e9, unit="bytes", source=Source.MEASURED),
        noise=noise_floor(),
        costs=tuple(scaled_curve(c, curve_scale) for c in CURVES),
        num_steps=8,
    )
    return made.model_copy(update=changes)


def noise_floor(within: float = 0.02, between: float = 0.01) -> NoiseFloor:
    ratio = Estimate(value=1.0, low=0.98, high=1.02, unit="x", source=Source.MEASURED)
    return NoiseFloor(within_launch_cv=within, between_launch_frac=between, aa_ratio=ratio, num_steps=16)


def scaled_curve(one: CostCurve, scale: float) -> CostCurve:
    points = tuple(CurvePoint(x=p.x, seconds=p.seconds * scale) for p in one.points)
    return one.model_copy(update={"points": points})


def prefill(x: float = 1000, count: float = 1) -> WorkItem:
    return WorkItem(role=Role.ROLLOUT, phase="rollout/prefill", curve="prefill", when={}, x=x, count=count)


def decode(x: float = 101, count: float = 40, threads: int = 2) -> WorkItem:
    when = {"rollout_threads": threads, "rollout_dtype": "fp32"}
    return WorkItem(role=Role.ROLLOUT, phase="rollout/decode", curve="decode", when=when, x=x, count=count)


def train(x: float = 2000, count: float = 4, *, recompute: bool = False) -> WorkItem:
    when = {"recompute": recompute}
    return WorkItem(role=Role.TRAINER, phase="train", curve="train", when=when, x=x, count=count)


def handover() -> WorkItem:
    return WorkItem(role=Role.TRAINER, phase="weight_sync", curve="handover", when={}, x=1, count=1)


def plan(*items: WorkItem, schedule: str = "sync", memory_bytes: float = 0.0) -> PlannedWork:
    return PlannedWork.model_validate(
        {
            "items": items,
            "schedule": schedule,
            "lag": int(schedule != "sync"),
            "trainer_cores": 1,
            "rollout_cores": 1,
            "memory_bytes": memory_bytes,
            "padded_tokens": 8000,
            "active_tokens": 5000,
        }
    )


BASELINE = plan(prefill(), decode(), train())


def change(**moved: object) -> Change:
    moves = tuple(Move.model_validate({"knob": k, "old": None, "new": v}) for k, v in sorted(moved.items()))
    return Change(moves=moves, effect=Effect.NONE, restart=Restart.HOT)


def learnt(raw: float, measured: float, **moved: object) -> LearntFrom:
    return LearntFrom(change=change(**moved), raw_forecast_ratio=raw, measured_ratio=measured)
