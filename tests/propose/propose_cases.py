"""A small framework: layout and dtype are free, overlap needs one thread a side and the owner's leave."""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.change import Change, Move
from steptune.core.estimate import Estimate, Source
from steptune.core.job import JobSpec, KnobsSpec
from steptune.core.knob import Effect, KnobSpec, KnobValue, Restart, Settings
from steptune.core.phase import Role
from steptune.propose.ranked import RankedChange


def spec(name: str, *values: KnobValue, effect: Effect = Effect.NONE, restart: Restart = Restart.HOT) -> KnobSpec:
    return KnobSpec(name=name, side=Role.TRAINER, values=values, effect=effect, restart=restart, what="a knob")


SPECS = (
    spec("layout", "padded", "sorted", "packed"),
    spec("dtype", "fp32", "bf16", effect=Effect.PRECISION),
    spec("schedule", "sync", "one_step_off", effect=Effect.STALENESS, restart=Restart.RELAUNCH),
    spec("threads", 1, 2, restart=Restart.REALLOCATE),
    spec("lr_scale", 1.0, 2.0, effect=Effect.ALGORITHM),
)
BASELINE: Settings = {"layout": "padded", "dtype": "fp32", "schedule": "sync", "threads": 2, "lr_scale": 1.0}
EFFECTS = {s.name: s.effect for s in SPECS}


def job(allow: tuple[str, ...] = (), **pin: KnobValue) -> JobSpec:
    return JobSpec(name="t", knobs=KnobsSpec(allow=allow, pin=dict(pin)))


def no_conflicts(settings: Settings) -> tuple[str, ...]:
    return ()


def needs_a_split(settings: Settings) -> tuple[str, ...]:
    overlapped = settings["schedule"] == "one_step_off"
    return ("one_step_off needs 1 thread a side",) if overlapped and settings["threads"] != 1 else ()


def bottleneck(kind: BottleneckKind, share: float, *levers: str) -> Bottleneck:
    return Bottleneck(
        kind=kind,
        share=Estimate(value=share, unit="frac", source=Source.DERIVED),
        ceiling=Estimate(value=1 - share, unit="s", source=Source.DERIVED),
        evidence="",
        levers=levers,
    )


PADDING = bottleneck(BottleneckKind.PADDING_WASTE, 0.3, "layout")
SERIAL = bottleneck(BottleneckKind.SERIALISED_SIDES, 0.4, "schedule", "threads")


def change(effect: Effect = Effect.NONE, restart: Restart = Restart.HOT, **moved: KnobValue) -> Change:
    moves = tuple(Move(knob=knob, old=None, new=new) for knob, new in sorted(moved.items()))
    return Change(moves=moves, effect=effect, restart=restart)


def ranked(mid: float, one: Change, spread: float = 1.05) -> RankedChange:
    return RankedChange(change=one, low=mid / spread, mid=mid, high=mid * spread)
