"""Records of a believable two-core run, from which `report_sessions` builds its journals."""

import math
from typing import Literal

from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate, Source
from steptune.core.event import (
    Forecasted,
    LearntFrom,
    Machine,
    SessionStarted,
    TrialEnded,
)
from steptune.core.forecast import Forecast, PhaseForecast
from steptune.core.framework import Lever
from steptune.core.job import JobSpec, LimitsSpec
from steptune.core.knob import Effect, KnobValue, Restart
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import (
    CostCurve,
    CurvePoint,
    GapStats,
    Health,
    NoiseFloor,
    PhaseTime,
    Profile,
    RoleProfile,
    SampledLengths,
    WorkSignature,
)
from steptune.core.trial import Observation, SpanTime, Trial, TrialState
from steptune.core.verdict import Judgement, Verdict
from steptune.core.work import PlannedWork, WorkItem

BASELINE: dict[str, tuple[KnobValue, KnobValue, str, str]] = {
    "compact_finished": (False, True, "generate() pads finished rows", "every served engine does"),
    "correction": ("none", "none", "the job's own", "the job's own"),
    "handover": ("copy", "copy", "measured equal to alias", "measured equal to alias"),
    "layout": ("padded", "sorted", "GRPOConfig() pads to the longest row", "length grouping, trainer guide"),
    "logprob_batch_tokens": (4096, None, "separate pass by default", "redundant with one update"),
    "micro_batch_tokens": (2048, 4096, "per_device_batch 8", "largest that fits, trainer guide"),
    "recompute": (True, False, "GRPOConfig().gradient_checkpointing is True", "memory is not short here"),
    "rollout_concurrency": (None, None, "whole batch at once", "whole batch at once"),
    "rollout_dtype": ("fp32", "fp32", "model dtype", "model dtype"),
    "schedule": ("sync", "sync", "the only one", "the only one"),
    "share_prefill": (False, True, "generate() repeats the prompt", "prefix caching"),
    "train_threads": (2, 2, "all cores", "all cores"),
}
"""Knob: (default, best practice, why default, why best practice)."""


def est(
    value: float,
    low: float | None = None,
    high: float | None = None,
    unit: str = "s",
    source: Source = Source.MEASURED,
    n: int | None = None,
) -> Estimate:
    return Estimate(value=value, low=low, high=high, unit=unit, source=source, n=n)


def ratio(value: float, spread: float = 0.02, source: Source = Source.MEASURED, n: int | None = 8) -> Estimate:
    return est(value, value * (1 - spread), value * (1 + spread), "x", source, n)


def change(effect: Effect = Effect.NONE, why: tuple[str, ...] = (), **new: KnobValue) -> Change:
    moves = tuple(Move(knob=knob, old=BASELINE[knob][0], new=value) for knob, value in sorted(new.items()))
    return Change(moves=moves, effect=effect, restart=Restart.RELAUNCH, why=why)


PACKED = change(why=("padding_waste",), layout="packed", recompute=False)
COMPACT = change(why=("long_tail",), layout="packed", recompute=False, compact_finished=True, share_prefill=True)
BF16 = change(Effect.PRECISION, layout="packed", recompute=False, rollout_dtype="bf16")
HUGE = change(layout="packed", recompute=False, micro_batch_tokens=65536)
WINNER = change(
    Effect.STALENESS,
    why=("serialised_sides", "redundant_logprob"),
    layout="packed",
    recompute=False,
    compact_finished=True,
    share_prefill=True,
    logprob_batch_tokens=None,
    schedule="one_step_off",
)
THREADS = change(layout="packed", recompute=False, train_threads=1)
FILE = change(layout="packed", recompute=False, handover="file")
NOTHING = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT)


def started(name: str = "math-dense", *, max_staleness: int = 1) -> SessionStarted:
    levers = [Lever(knob=k, value=v[0], why=v[2]) for k, v in BASELINE.items()]
    best = [Lever(knob=k, value=v[1], why=v[3]) for k, v in BASELINE.items()]
    return SessionStarted(
        steptune_version="0.1.0",
        code_hash="8c1f0a2b77de",
        job=JobSpec(name=name, limits=LimitsSpec(max_staleness=max_staleness)),
        machine=Machine(
            cpu="AMD EPYC 7B13",
            num_cores=2,
            memory_bytes=25_200_000_000,
            python="3.11.7",
            torch="2.13.0+cpu",
            platform="Linux-6.1-x86_64",
        ),
        baseline_levers=tuple(levers),
        best_practice_levers=tuple(best),
    )


def phase(role: Role, name: str, seconds: float, kind: SpanKind = SpanKind.BUSY) -> PhaseTime:
    return PhaseTime(role=role, phase=name, kind=kind, seconds=est(seconds, seconds * 0.97, seconds * 1.03, n=12))


def role(which: Role, wall_s: float, *spans: tuple[str, float, SpanKind]) -> RoleProfile:
    phases = tuple(phase(which, name, seconds, kind) for name, seconds, kind in spans)
    return RoleProfile(role=which, num_replicas=1, num_devices=2, wall_s=wall_s, phases=phases)


B, W = SpanKind.BUSY, SpanKind.EXPOSED_WAIT


def baseline_profile() -> Profile:
    trainer = role(
        Role.TRAINER,
        1.04,
        ("rollout", 0.47, W),
        ("reward", 0.011, B),
        ("old_logprob", 0.13, B),
        ("train", 0.40, B),
        ("train/forward", 0.15, B),
        ("train/backward", 0.24, B),
        ("weight_sync", 0.021, B),
    )
    rollout = role(
        Role.ROLLOUT,
        1.04,
        ("rollout", 0.465, B),
        ("rollout/prefill", 0.08, B),
        ("rollout/decode", 0.38, B),
        ("train", 0.55, W),
        ("weight_sync", 0.02, W),
    )
    return Profile(
        framework="embedded",
        framework_version="0.1.0",
        work=WorkSignature(prompts_per_step=32, group_size=8, max_completion_len=40, num_updates=1),
        step_time=est(1.04, 1.02, 1.07, n=12),
        roles=(trainer, rollout),
        lengths=SampledLengths(prompt=(12, 14, 17, 20), completion=(6, 9, 14, 40), rollouts_per_step=4),
        health=Health(reward_mean=0.41, mixed_groups_frac=0.7, truncated_frac=0.02),
        memory_peak_bytes=est(1.4e9, unit="bytes"),
        noise=NoiseFloor(
            within_launch_cv=0.021, between_launch_frac=0.013, aa_ratio=ratio(1.006, 0.014, n=8), num_steps=24
        ),
        costs=(
            CostCurve(
                name="decode",
                when={"rollout_dtype": "fp32"},
                unit="rows",
                points=(
                    CurvePoint(x=1, seconds=0.0011),
                    CurvePoint(x=64, seconds=0.0031),
                    CurvePoint(x=256, seconds=0.0094),
                ),
            ),
            CostCurve(
                name="train", when={"recompute": False}, unit="tokens", points=(CurvePoint(x=2048, seconds=0.03),)
            ),
            CostCurve(name="handover", when={}, unit="bytes", points=()),
        ),
        num_steps=12,
        num_warmup=3,
        load_avg=0.31,
    )


def tuned_profile() -> Profile:
    trainer = role(
        Role.TRAINER, 0.43, ("rollout", 0.11, W), ("reward", 0.01, B), ("train", 0.285, B), ("weight_sync", 0.02, B)
    )
    rollout = role(Role.ROLLOUT, 0.43, ("rollout", 0.39, B), ("rollout/decode", 0.35, B), ("weight_sync", 0.03, W))
    return Profile(
        framework="embedded",
        schedule="async",
        step_time=est(0.43, 0.42, 0.445, n=12),
        roles=(trainer, rollout),
        num_steps=12,
        load_avg=0.4,
    )


def planned() -> PlannedWork:
    item = WorkItem(role=Role.ROLLOUT, phase="rollout/decode", curve="decode", when={}, x=96, count=31)
    return PlannedWork(
        items=(item,),
        schedule="sync",
        lag=0,
        trainer_cores=2,
        rollout_cores=2,
        memory_bytes=1e8,
        padded_tokens=9000,
        active_tokens=5200,
    )


def forecasted(
    trial: int,
    moved: Change,
    value: float,
    spread: float = 0.08,
    *,
    first: bool = True,
    refused: str | None = None,
    purpose: Literal["trial", "waterfall"] = "trial",
) -> Forecasted:
    forecast = Forecast(
        change=moved,
        step_time=est(value * 1.04, value * (1 - spread), value * 1.04 * (1 + spread), source=Source.FORECAST),
        ratio=ratio(value, spread, Source.FORECAST, None),
        phases=(PhaseForecast(role="trainer", phase="train", seconds=0.3),),
        lag=1 if moved is WINNER else 0,
        memory_fits=None if moved is HUGE else True,
        num_free_parameters=2 if first else 4,
        profile_hash="1f7ac03d9b21",
        trials_used=() if first else (PACKED.signature,),
        refused=refused,
    )
    history = () if first else (LearntFrom(change=PACKED, raw_forecast_ratio=0.71, measured_ratio=0.69),)
    return Forecasted(
        purpose=purpose,
        trial_number=trial,
        is_first=first,
        forecast=forecast,
        planned=planned(),
        planned_baseline=planned(),
        history=history,
    )


def observation(step: int, *, lag_max: int = 1, k3: float = 2.1e-6) -> Observation:
    gap = GapStats(k1=1e-7, k3=k3, mean_abs=4e-4, max_abs=0.01, mult_prob_error=1.0004, ess_frac=0.999, num_tokens=3800)
    return Observation(
        step=step,
        step_time_s=0.43,
        wall_by_role_s={"trainer": 0.43},
        spans=(SpanTime(role="trainer", phase="train", kind="busy", seconds=0.3),),
        prompt_tokens=4000,
        completion_tokens=3800,
        padded_tokens=7800,
        decode_iterations=40,
        num_rollouts=256,
        completion_len_p50=14,
        completion_len_max=40,
        truncated_frac=0.02,
        reward_mean=0.43,
        mixed_groups_frac=0.7,
        entropy=0.9,
        grad_norm=0.4,
        loss=0.01,
        mismatch=gap,
        lag_max=lag_max,
        memory_peak_bytes=1_600_000_000,
        weight_version=step + 1,
    )


def verdict(
    guard: str,
    judgement: Judgement,
    measured: Estimate | None,
    limit: str,
    because: str,
    detectable: Estimate | None = None,
) -> Verdict:
    return Verdict(
        guard=guard, judgement=judgement, measured=measured, limit=limit, because=because, detectable=detectable
    )


K3 = est(2.1e-6, 1.4e-6, 3.0e-6, "nat", n=12)
MISMATCH_PASS = verdict("mismatch", Judgement.PASS, K3, "at most 1e-3 nat", "median k3 2.1e-06 over 12 steps")
PARITY_PASS = verdict(
    "update_parity",
    Judgement.PASS,
    est(1.8e-4, unit="1", n=3),
    "at most 5.0e-4, twice the baseline's own rounding band",
    "relative distance 1.8e-04 over 3 replayed batches",
)
MISMATCH_FAIL = verdict(
    "mismatch",
    Judgement.FAIL,
    est(3.9e-3, 3.1e-3, 4.6e-3, "nat", n=12),
    "at most 1e-3 nat",
    "median k3 3.9e-03 over 12 steps, all above the limit",
)
ENTROPY_OPEN = verdict(
    "entropy",
    Judgement.INCONCLUSIVE,
    est(math.nan, unit="nat", n=12),
    "within 10 % of the baseline",
    "4 of 12 steps NaN",
)
REWARD_OPEN = verdict(
    "reward",
    Judgement.INCONCLUSIVE,
    est(-0.006, -0.034, 0.022, "1", Source.DERIVED, 5),
    "fall at most 0.03",
    "95 % interval -0.034 to 0.022 reaches below -0.03 with 5 pairs",
    est(0.041, unit="1", source=Source.DERIVED),
)


def ended(
    number: int,
    moved: Change,
    state: TrialState,
    outcome: Outcome,
    to_baseline: float | None,
    *verdicts: Verdict,
    cause: str = "",
    reasons: tuple[str, ...] = (),
) -> TrialEnded:
    measured = None if to_baseline is None else ratio(to_baseline)
    return TrialEnded(
        trial=Trial(
            number=number,
            change=moved,
            state=state,
            ratio=measured,
            step_time=None if to_baseline is None else est(1.04 * to_baseline, to_baseline, 1.08 * to_baseline, n=8),
            cost_wall_s=21.5,
            cost_device_s=40.25,
            load_avg=0.5,
            cause=cause,
        ),
        verdicts=verdicts,
        outcome=outcome,
        reasons=reasons,
        ratio_to_baseline=measured,
    )
