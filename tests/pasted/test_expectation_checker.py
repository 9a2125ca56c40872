import re

import pytest
from expectation import (
    FALSE_CLAIM,
    MISS,
    ComparisonExpectation,
    Expectation,
    WantedFinding,
    WantedPhase,
    check,
    check_comparison,
)

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.comparison import Comparison, SpeedVerdict, WorkDifference
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Diagnosis, Evidence, Finding, FindingKind, PhaseRow, Remedy, Severity
from steptune.core.paste import Paste, Series, SeriesPoint
from steptune.core.phase import Role


def seconds(value: float, unit: str = "s") -> Estimate:
    return Estimate(value=value, unit=unit, source=Source.MEASURED)


ROLLOUT = Finding(
    code="rollout_bound",
    kind=FindingKind.BOTTLENECK,
    severity=Severity.WARNING,
    title="generation holds the step up",
    evidence=(Evidence(text="gen 74.0 of 96.6 s"),),
    remedies=(Remedy(text="give it memory", lines=("rollout.gpu_memory_utilization=0.8",)),),
    share=seconds(0.766, "frac"),
    ceiling=seconds(22.5),
)
NO_TIMING = Finding(code="no_timing", kind=FindingKind.NO_CLAIM, severity=Severity.INFO, title="nothing is timed")
LENGTHS = Series(
    name="completion_mean", key="response_length/mean", points=(SeriesPoint(step=2, value=324.958, line=1),), path="x"
)


def answer(*findings: Finding, **fields: object) -> Diagnosis:
    paste = Paste(paths=("x",), framework="verl", series=(LENGTHS,))
    return Diagnosis.model_validate({"paste": paste, "findings": findings, **fields})


def expected(**fields: object) -> Expectation:
    return Expectation.model_validate({"id": "X", "why": "because", "timing": "phases", **fields})


def test_a_right_answer_has_no_fault() -> None:
    wanted = {"codes": ["rollout_bound"], "says": ["74"], "share": [0.7, 0.8], "ceiling_s": [22.0, 23.0]}
    right = expected(
        framework=["verl"],
        findings=[wanted],
        bottleneck=wanted,
        remedies=[["gpu_memory_utilization"]],
        texts=["96"],
        series={"completion_mean": [325.0]},
    )
    assert check(right, answer(ROLLOUT), "step 96.6 s") == []


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"framework": ["trl"]}, "framework is verl"),
        ({"findings": [{"codes": ["oom/*"]}]}, "no finding"),
        ({"findings": [{"codes": ["rollout_bound"], "says": ["75"]}]}, "does not say '75'"),
        ({"findings": [{"codes": ["rollout_bound"], "share": [0.1, 0.2]}]}, "share of rollout_bound is 0.766"),
        ({"bottleneck": {"codes": ["trainer_bound"]}}, "no finding"),
        ({"remedies": [["max_num_seqs"]]}, "no remedy says"),
        ({"texts": ["97"]}, "text does not say"),
        ({"phases": [{"key": "gen"}]}, "no phase 'gen'"),
        ({"series": {"completion_mean": [400.0]}}, "was not read as 400.0"),
        ({"step_time_s": [96.0, 97.0]}, "step time is missing"),
        ({"switch_on": True}, "what to switch on"),
    ],
)
def test_what_is_absent_is_a_miss(fields: dict[str, object], fault: str) -> None:
    faults = check(expected(**fields), answer(ROLLOUT), "step 96.6 s")
    assert len(faults) == 1
    assert faults[0].startswith(MISS)
    assert fault in faults[0]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"forbid_codes": ["rollout_*"]}, "rollout_bound: generation"),
        ({"forbid_texts": ["3h10m"]}, "says '3h10m'"),
        ({"forbid_lines": ["utilization=0.8"]}, "advises"),
        ({"forbid_series": {"completion_mean": [324.958]}}, "misread as 324.958"),
    ],
)
def test_what_is_not_supported_is_a_false_claim(fields: dict[str, object], fault: str) -> None:
    faults = check(expected(**fields), answer(ROLLOUT), "3h10m left")
    assert [f for f in faults if f.startswith(FALSE_CLAIM)] == faults != []
    assert fault in faults[0]


def test_nothing_may_be_claimed_of_the_time_where_none_is_given() -> None:
    bound = Bottleneck(
        kind=BottleneckKind.ROLLOUT_BOUND, share=seconds(0.7, "frac"), ceiling=seconds(3.0), evidence="a guess"
    )
    forecast = NO_TIMING.model_copy(update={"remedies": (Remedy(text="try", step_time=seconds(3.0)),)})
    shared = NO_TIMING.model_copy(update={"share": seconds(0.7, "frac")})
    no_time = expected(timing="none")
    assert check(no_time, answer(NO_TIMING), "nothing is timed, take 2 more engines") == []
    for diagnosis in (
        answer(ROLLOUT),
        answer(NO_TIMING, bottlenecks=(bound,)),
        answer(forecast),
        answer(shared),
        answer(cannot_help=("sync: at most 3 %",)),
    ):
        faults = check(no_time, diagnosis, "")
        assert faults
        assert all(f.startswith(FALSE_CLAIM) for f in faults)


@pytest.mark.parametrize(
    "text", ["it is 2.5x faster", "20 % faster", "1.3× speedup", "a speed-up of 2", "3 times faster"]
)
def test_a_gain_in_speed_is_a_claim(text: str) -> None:
    assert check(expected(timing="step"), answer(), text) == [
        f"{FALSE_CLAIM}: a gain in speed without timing: {re.sub('^(it is|a) ', '', text)}"
    ]
    assert check(expected(timing="phases"), answer(), text) == []


def test_a_wait_shown_as_busy_is_a_miss() -> None:
    row = PhaseRow(
        role=Role.TRAINER,
        phase="rollout",
        key="timing/exposed_generation",
        is_wait=False,
        seconds=seconds(32.5),
        share=0.49,
        if_free=seconds(34.0),
    )
    wanted = WantedPhase(key="exposed_generation", seconds=(32.0, 33.0), is_wait=True, if_free_s=(33.0, 35.0))
    assert check(expected(phases=[wanted]), answer(phases=(row,)), "") == [f"{MISS}: exposed_generation is busy"]
    waiting = row.model_copy(update={"is_wait": True})
    assert check(expected(phases=[wanted]), answer(phases=(waiting,)), "") == []


def test_the_largest_bottleneck_is_the_one_judged() -> None:
    larger = ROLLOUT.model_copy(update={"code": "trainer_bound", "share": seconds(0.9, "frac")})
    wanted = WantedFinding(codes=("rollout_bound",))
    assert check(expected(bottleneck=wanted), answer(ROLLOUT), "") == []
    assert check(expected(bottleneck=wanted), answer(ROLLOUT, larger), "")[0].startswith(MISS)


def test_a_comparison_is_judged_on_its_verdict_ratios_and_work() -> None:
    wanted = ComparisonExpectation(
        id="a-b",
        a="a",
        b="b",
        why="less work",
        verdicts=("no proof",),
        throughput_ratio=(1.09, 1.1),
        work={"group": (1.25, 1.25)},
        forbid_texts=("27 % faster",),
    )
    right = Comparison(
        verdict=SpeedVerdict.NO_PROOF,
        reason="the work differs",
        throughput_ratio=seconds(1.094, "x"),
        work=(WorkDifference(what="group size", a=5.0, b=4.0, is_declared=True),),
    )
    assert check_comparison(wanted, right) == []
    wrong = Comparison(verdict=SpeedVerdict.FASTER, reason="27 % faster", throughput_ratio=seconds(1.37, "x"))
    faults = check_comparison(wanted, wrong)
    assert [f.split(":")[0] for f in faults] == [MISS, MISS, MISS, FALSE_CLAIM]
