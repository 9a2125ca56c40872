"""Synthetic journals for the report's tests: a full session, a bare one, killed, hopeless and hostile ones.

The numbers are those of a believable two-core run; every kind of event, trial state and verdict occurs.
"""

import math

from report_records import (
    BASELINE,
    BF16,
    COMPACT,
    ENTROPY_OPEN,
    FILE,
    HUGE,
    MISMATCH_FAIL,
    MISMATCH_PASS,
    NOTHING,
    PACKED,
    PARITY_PASS,
    REWARD_OPEN,
    THREADS,
    WINNER,
    baseline_profile,
    change,
    ended,
    est,
    forecasted,
    observation,
    ratio,
    started,
    tuned_profile,
)

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.change import Change, LimitPrice
from steptune.core.decision import Decision, Outcome, Range, Tripwire
from steptune.core.estimate import Estimate, Source
from steptune.core.event import (
    Confirmed,
    Decided,
    Diagnosed,
    Event,
    Profiled,
    Proposed,
    RewardTested,
    SessionEnded,
    SessionResumed,
    TrialEnded,
    TrialStarted,
    Waterfall,
    WaterfallStep,
)
from steptune.core.knob import KnobValue
from steptune.core.trial import Arm, TrialState


def trial_events() -> list[Event]:
    finished, rejected = TrialState.FINISHED, Outcome.REJECT

    def begin(number: int, moved: Change) -> TrialStarted:
        return TrialStarted(number=number, change=moved, incumbent_signature=NOTHING.signature)

    slower = "ratio 1.09 x: slower than the incumbent beyond the noise"
    return [
        forecasted(1, PACKED, 0.71),
        begin(1, PACKED),
        ended(
            1, PACKED, finished, Outcome.ADOPT, 0.69, MISMATCH_PASS, PARITY_PASS, reasons=("faster, all guards pass",)
        ),
        forecasted(2, COMPACT, 0.55),
        forecasted(2, COMPACT, 0.53, 0.05, first=False),
        begin(2, COMPACT),
        SessionResumed(code_hash="8c1f0a2b77de", abandoned_trials=(2,)),
        begin(2, COMPACT),
        ended(2, COMPACT, finished, Outcome.ADOPT, 0.54, MISMATCH_PASS, reasons=("faster, all guards pass",)),
        forecasted(3, BF16, 0.60),
        begin(3, BF16),
        ended(3, BF16, finished, rejected, 0.75, MISMATCH_FAIL, ENTROPY_OPEN, reasons=("guard mismatch failed",)),
        forecasted(4, HUGE, 0.66),
        begin(4, HUGE),
        ended(4, HUGE, TrialState.OUT_OF_MEMORY, rejected, None, cause="rollout worker killed at 24.9 GB resident"),
        forecasted(5, WINNER, 0.44),
        forecasted(5, WINNER, 0.42, 0.05, first=False),
        begin(5, WINNER),
        ended(
            5, WINNER, finished, Outcome.PROVISIONAL, 0.413, MISMATCH_PASS, reasons=("faster; reward under-powered",)
        ),
        forecasted(6, THREADS, 0.93, first=False),
        begin(6, THREADS),
        ended(6, THREADS, TrialState.STOPPED, rejected, 1.09, cause="cannot win any more", reasons=(slower,)),
        forecasted(7, FILE, 0.70, first=False),
        begin(7, FILE),
        ended(7, FILE, TrialState.FAILED, rejected, None, cause="loss became NaN at step 3"),
        forecasted(8, change(rollout_concurrency=64), math.nan, refused="no cost curve for 64 rows at fp32"),
    ]


def reward_tested() -> RewardTested:
    return RewardTested(
        signature=WINNER.signature,
        start_S=(0.412, 0.405, 0.418, 0.409, 0.411),
        baseline_S=(0.502, 0.511, 0.489, 0.507, 0.498),
        candidate_S=(0.508, 0.484, 0.497, 0.491, 0.497),
        baseline_truncated_S=(0.02, 0.018, 0.022, 0.02, 0.019),
        candidate_truncated_S=(0.021, 0.02, 0.019, 0.023, 0.02),
        verdicts=(REWARD_OPEN,),
        cost_wall_s=148.0,
        cost_device_s=290.0,
    )


def waterfall() -> Waterfall:
    added = (
        ("baseline", 1.04, None, NOTHING),
        ("recompute: True -> False", 0.88, 0.846, change(recompute=False)),
        ("layout: padded -> packed", 0.72, 0.818, PACKED),
        ("logprob_batch_tokens: 4096 -> None", 0.65, 0.903, NOTHING),
        ("compact_finished: False -> True, share_prefill: False -> True", 0.57, 0.877, NOTHING),
        ("schedule: sync -> one_step_off", 0.43, 0.754, WINNER),
    )
    rows = [
        WaterfallStep(
            added=name,
            step_time=est(step, step * 0.98, step * 1.02, n=6),
            ratio_to_previous=None if factor is None else ratio(factor, n=6),
            ratio_to_baseline=None if factor is None else ratio(step / 1.04, n=6),
            signature=moved.signature if factor is not None and moved is not NOTHING else "",
        )
        for name, step, factor, moved in added
    ]
    return Waterfall(rows=tuple(rows), cost_wall_s=44.0, cost_device_s=85.0)


def decision() -> Decision:
    settings = {name: row[0] for name, row in BASELINE.items()}
    return Decision(
        outcome=Outcome.PROVISIONAL,
        change=WINNER,
        settings=WINNER.applied_to(settings),
        speedup=est(2.43, 2.34, 2.52, "x", n=24),
        speedup_over_best_practice=est(1.36, 1.30, 1.42, "x", n=24),
        verdicts=(MISMATCH_PASS, PARITY_PASS, REWARD_OPEN),
        reasons=(
            "2.43 x on 24 steps that were not used to select",
            "only the reward guard is not settled, for lack of seeds",
        ),
        tripwires=(
            Tripwire(metric="mismatch_k3", bound=1e-3, above=True, action="return to the baseline"),
            Tripwire(metric="reward_mean", bound=0.38, above=False, action="return to the baseline"),
        ),
        holds_for=Range(
            completion_len_mean=17.3, completion_len_max=40, forecast_ratio_at={"1x": 0.42, "2x": 0.47, "longest": 0.55}
        ),
        cost_wall_s=478.0,
        cost_device_s=921.0,
        break_even_step=784,
    )


def full_session() -> list[Event]:
    """Everything happened: adopted, rejected, stopped, failed, out of memory, refused, resumed."""
    gain = ratio(1.12, 0.1, Source.FORECAST, None)
    share = est(0.41, 0.38, 0.44, "frac", Source.DERIVED, 12)
    return [
        started(),
        Profiled(label="baseline", profile=baseline_profile(), cost_wall_s=61.0, cost_device_s=104.0),
        Diagnosed(bottlenecks=bottlenecks(share)),
        Proposed(
            num_candidates=42,
            num_refused=9,
            refusals=("max_staleness 1 forbids two steps off", "corrections are not allowed"),
            prices=(LimitPrice(limit="max_staleness", now="1", relaxed="2", gain=gain),),
        ),
        *trial_events(),
        reward_tested(),
        forecasted(1, change(recompute=False), 0.86, purpose="waterfall"),
        forecasted(2, PACKED, 0.71, purpose="waterfall"),
        waterfall(),
        Confirmed(
            signature=WINNER.signature,
            arms=(
                Arm(label="baseline", signature=NOTHING.signature, observations=(observation(0, lag_max=0),)),
                Arm(label="candidate", signature=WINNER.signature, observations=tuple(map(observation, range(4)))),
            ),
            speedup=est(2.43, 2.34, 2.52, "x", n=24),
            speedup_over_best_practice=est(1.36, 1.30, 1.42, "x", n=24),
            raw_speedup=est(2.37, 2.25, 2.5, "x", n=5),
            cost_wall_s=38.0,
            cost_device_s=70.0,
        ),
        Profiled(label="tuned", profile=tuned_profile(), cost_wall_s=19.0, cost_device_s=35.0),
        Decided(decision=decision()),
        SessionEnded(why="done", cost_wall_s=478.0, cost_device_s=921.0),
    ]


def bottlenecks(share: Estimate) -> tuple[Bottleneck, ...]:
    def one(kind: BottleneckKind, part: float, ceiling: float, evidence: str, *levers: str) -> Bottleneck:
        return Bottleneck(
            kind=kind,
            share=share.model_copy(update={"value": part, "low": part * 0.95, "high": part * 1.05}),
            ceiling=est(ceiling, ceiling * 0.97, ceiling * 1.03, source=Source.DERIVED, n=12),
            evidence=evidence,
            levers=levers,
        )

    return (
        one(BottleneckKind.SERIALISED_SIDES, 0.44, 0.58, "each side waits 0.47 s and 0.57 s for the other", "schedule"),
        one(BottleneckKind.PADDING_WASTE, 0.16, 0.87, "42 % of trained positions are padding", "layout"),
        one(BottleneckKind.REDUNDANT_LOGPROB, 0.125, 0.91, "0.13 s for log-probs the update recomputes"),
        one(
            BottleneckKind.LONG_TAIL, 0.11, 0.93, "the last 10 % of rows hold the batch for 0.11 s", "compact_finished"
        ),
    )


def minimal_session() -> list[Event]:
    """Only the first event: killed before a clock was read."""
    return [started()]


def killed_session() -> list[Event]:
    """Killed in the middle of its second trial."""
    events = full_session()
    cut = next(i for i, event in enumerate(events) if isinstance(event, TrialStarted) and event.number == 2)
    return events[: cut + 1]


def no_change_session() -> list[Event]:
    """One trial, no gain, the baseline handed back."""
    settings: dict[str, KnobValue] = {name: row[0] for name, row in BASELINE.items()}
    handed_back = Decision(
        outcome=Outcome.NO_CHANGE,
        change=NOTHING,
        settings=settings,
        speedup=None,
        reasons=("no change was faster beyond the A/A noise of 1.4 %",),
        cost_wall_s=90.0,
        cost_device_s=170.0,
        break_even_step=None,
    )
    reject = ended(1, PACKED, TrialState.FINISHED, Outcome.REJECT, 1.003, MISMATCH_PASS, reasons=("within the noise",))
    return [
        *full_session()[:4],
        forecasted(1, PACKED, 0.71),
        TrialStarted(number=1, change=PACKED, incumbent_signature=NOTHING.signature),
        reject,
        Decided(decision=handed_back),
        SessionEnded(why="done", cost_wall_s=90.0, cost_device_s=170.0),
    ]


def reject_session() -> list[Event]:
    """A confirmed candidate failed a guard: faster, but the baseline is handed back."""
    settings: dict[str, KnobValue] = {name: row[0] for name, row in BASELINE.items()}
    update = {
        "outcome": Outcome.REJECT,
        "settings": settings,
        "verdicts": (MISMATCH_FAIL, REWARD_OPEN),
        "reasons": ("mismatch failed: median k3 3.9e-03 over 12 steps",),
        "tripwires": (),
        "holds_for": None,
        "break_even_step": None,
    }
    return [
        Decided(decision=event.decision.model_copy(update=update)) if isinstance(event, Decided) else event
        for event in full_session()
    ]


def refused_session() -> list[Event]:
    """Every forecast was refused and the session ended in an error."""
    why = "the profile has no cost curve for `train`"
    refusals = [forecasted(n, moved, math.nan, refused=why) for n, moved in ((1, PACKED), (2, COMPACT))]
    return [
        *full_session()[:4],
        *refusals,
        SessionEnded(why=f"StoreError: {why}", cost_wall_s=70.0, cost_device_s=120.0),
    ]


def nan_session() -> list[Event]:
    """Every number a trial could break is NaN."""
    nan = est(math.nan, math.nan, math.nan, "x", n=3)
    events = full_session()
    broken: list[Event] = []
    for event in events:
        if isinstance(event, TrialEnded):
            trial = event.trial.model_copy(update={"ratio": nan, "step_time": nan, "cost_wall_s": math.nan})
            event = event.model_copy(update={"ratio_to_baseline": nan, "trial": trial})
        if isinstance(event, RewardTested):
            event = event.model_copy(update={"candidate_S": (math.nan,) * 5})
        if isinstance(event, Waterfall):
            rows = tuple(row.model_copy(update={"step_time": nan, "ratio_to_previous": nan}) for row in event.rows)
            event = event.model_copy(update={"rows": rows})
        if isinstance(event, Decided):
            event = Decided(decision=event.decision.model_copy(update={"speedup": nan}))
        broken.append(event)
    return broken


HOSTILE = "<script>alert(1)</script>\"'&\x00"
"""A name no document may execute or choke on."""


def hostile_session() -> list[Event]:
    """Strings that users or frameworks wrote try to become markup."""
    events = full_session()
    events[0] = started(HOSTILE)
    return [
        event.model_copy(update={"reasons": (HOSTILE,), "trial": event.trial.model_copy(update={"cause": HOSTILE})})
        if isinstance(event, TrialEnded)
        else event
        for event in events
    ]


SESSIONS = {
    "empty": list,
    "minimal": minimal_session,
    "killed": killed_session,
    "no_change": no_change_session,
    "reject": reject_session,
    "refused": refused_session,
    "nan": nan_session,
    "hostile": hostile_session,
    "full": full_session,
}
"""Every journal by name."""
