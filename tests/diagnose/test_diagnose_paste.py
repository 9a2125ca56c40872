"""The whole way from a paste to its diagnosis, and what must hold for any paste."""

import math

import pytest
from diagnose_cases import asynchronous
from hypothesis import given, settings
from hypothesis import strategies as st
from paste_cases import paste, series, step
from paste_cases import settings as config

from steptune.core.finding import Diagnosis, FindingKind, Severity
from steptune.core.paste import Series
from steptune.core.profile import SummaryLengths
from steptune.diagnose.paste import diagnose_paste


def test_a_rollout_bound_step_is_answered_in_full() -> None:
    log = paste(
        step({"rollout": 74.02, "old_logprob": 3.57, "ref_logprob": 2.0, "train": 16.96}, num_steps=1),
        series=(series("mfu", 1.018), series("reward", 0.011)),
        settings=config(actor_rollout_ref__rollout__gpu_memory_utilization=0.5),
    )
    answer = diagnose_paste(log)
    bound = next(f for f in answer.findings if f.code == "rollout_bound")
    assert bound.title == "77% of the step goes to generation; if that were free, 1 m 37 s to 22.5 s"
    assert bound.evidence[0].origin is not None
    assert bound.remedies[0].step_time is not None
    assert {"implausible/mfu", "one_step"} <= answer.codes()
    assert "A faster reference pass cannot help: for free it saves 2 s of 1 m 37 s (2.1%)" in answer.cannot_help
    assert answer.phases
    assert not answer.switch_on


def test_a_wait_for_samples_is_not_called_generation() -> None:
    starved = asynchronous(trainer_busy={"train": 5.0}, trainer_wait={"rollout": 4.9})
    titles = [f.title for f in diagnose_paste(paste(starved)).findings if f.code == "rollout_bound"]
    assert titles == ["49% of the step goes to waiting for samples; if that were free, 10 s to 5.1 s"]


def test_nine_hours_are_said_as_people_say_them() -> None:
    long = diagnose_paste(paste(step({"rollout": 19560.0, "train": 10260.0}, step_s=32423.0)))
    assert long.findings[0].title.endswith("9 h 00 m to 3 h 34 m")


def test_no_bottleneck_is_named_during_a_ramp_up() -> None:
    moving = (series("step_time", 42.8, 32.2, 15.3), series("async_level", 0.0, 1.0, 2.0))
    answer = diagnose_paste(paste(step({"rollout": 25.0, "train": 5.0}), series=moving))
    assert "ramp_up" in answer.codes()
    assert not answer.bottlenecks
    assert not answer.cannot_help
    assert no_claim_about_speed(answer)


def test_faults_come_first_and_then_the_largest_share() -> None:
    sick = (series("clipped_frac", 0.9), series("loss", math.nan))
    answer = diagnose_paste(paste(step({"rollout": 60.0, "train": 40.0}), series=sick))
    ranks = [list(Severity).index(f.severity) for f in answer.findings]
    assert ranks == sorted(ranks)
    shares = [f.share.value for f in answer.findings if f.share]
    assert shares == sorted(shares, reverse=True)


def no_claim_about_speed(answer: Diagnosis) -> bool:
    held = [f for f in answer.findings if f.kind is FindingKind.BOTTLENECK or f.share or f.ceiling]
    return not (held or answer.bottlenecks or answer.cannot_help)


NAMES = (
    "reward",
    "reward_std",
    "zero_std_frac",
    "entropy",
    "completion_mean",
    "clipped_frac",
    "mfu",
    "grad_norm",
    "mismatch_k3",
    "is_ratio_mean",
    "ess_frac",
    "memory_reserved_gib",
    "padded_len",
    "async_level",
    "step_time",
)
VALUES = st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=9)


@st.composite
def logs(draw: st.DrawFn) -> tuple[Series, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    return tuple(series(name, *draw(VALUES)) for name in names)


@given(logged=logs(), framework=st.sampled_from(["verl", "nemo_rl", "slime", None]))
@settings(max_examples=60, deadline=None)
def test_without_timers_nothing_is_said_about_speed(logged: tuple[Series, ...], framework: str | None) -> None:
    answer = diagnose_paste(paste(series=logged, framework=framework))
    assert no_claim_about_speed(answer)
    assert not answer.phases
    assert answer.codes() & {"no_timing", "partial_timing", "no_data"}


PHASES = ("rollout", "env_wait", "reward", "old_logprob", "train", "weight_sync", "mode_switch", "checkpoint")


@given(
    busy=st.fixed_dictionaries({phase: st.floats(0, 1000) for phase in PHASES}),
    logged=logs(),
    schedule=st.sampled_from(["sync", "async"]),
)
@settings(max_examples=60, deadline=None)
def test_shares_and_ceilings_are_parts_of_the_step(
    busy: dict[str, float], logged: tuple[Series, ...], schedule: str
) -> None:
    step_s = math.fsum(busy.values()) + 1.0
    answer = diagnose_paste(paste(step(busy, step_s=step_s, schedule=schedule), series=logged))
    for finding in answer.findings:
        assert finding.share is None or 0 < finding.share.value <= 1
        assert finding.ceiling is None or 0 <= finding.ceiling.value <= step_s
        assert len(finding.remedies) <= 3
        assert all(remedy.keeps_algorithm for remedy in finding.remedies)
    for row in answer.phases:
        assert row.if_free is None or 0 <= row.if_free.value <= step_s


@pytest.mark.parametrize("step_s", [0.0, -1.0, math.nan, math.inf, 1e300])
def test_a_step_without_a_time_claims_nothing(step_s: float) -> None:
    answer = diagnose_paste(paste(step({"rollout": 5.0, "train": 1.0}, step_s=step_s)))
    assert no_claim_about_speed(answer)
    assert answer.phases == ()
    assert "implausible/step_time" in answer.codes()


def test_a_number_with_a_lost_decimal_point_overflows_nothing() -> None:
    huge = (series("reward", 1.8e305, 1.7e308, 1.7e308, 1.7e308), series("completion_mean", 300.0, 1e308))
    answer = diagnose_paste(paste(step({"rollout": 5.0, "train": 1.0}), series=huge))
    assert "rollout_bound" in answer.codes()
    assert answer.paste.series == huge


def test_an_answer_survives_the_way_through_json() -> None:
    answer = diagnose_paste(paste(step({"rollout": 5.0, "train": 1.0}), series=(series("loss", math.nan),)))
    assert Diagnosis.model_validate_json(answer.model_dump_json()).codes() == answer.codes()


@pytest.mark.parametrize("number", [10**400, -(10**400), 1e308, math.nan, math.inf, -1, 0, True])
def test_impossible_settings_are_unknown(number: object) -> None:
    keys = (
        "data__train_batch_size",
        "actor_rollout_ref__rollout__n",
        "actor_rollout_ref__rollout__gpu_memory_utilization",
        "actor_rollout_ref__rollout__max_num_batched_tokens",
        "actor_rollout_ref__rollout__top_p",
        "actor_rollout_ref__actor__clip_ratio",
        "trainer__save_freq",
        "trainer__n_gpus_per_node",
    )
    logged = (series("is_ratio_mean", 0.9), series("timing_s/save_checkpoint", 900.0))
    given = paste(step({"rollout": 5.0, "train": 1.0}), settings=config(**dict.fromkeys(keys, number)), series=logged)
    answer = diagnose_paste(given)
    assert "rollout_bound" in answer.codes()
    assert not {"small_decode_batch", "mismatch/tight_clip", "mismatch/sampling_params"} & answer.codes()


def test_a_tail_reckoned_from_mean_and_longest_is_said_to_be_the_most_it_can_be() -> None:
    lengths = SummaryLengths(completion_mean=800.0, completion_max=4096.0, clipped_frac=0.05)
    answer = diagnose_paste(paste(profile=step({"rollout": 100.0, "train": 5.0}, lengths=lengths)))
    [tail] = [finding for finding in answer.findings if finding.code == "long_tail"]
    assert tail.title.startswith("up to 77% of the step")  # 100 s x (1 - 800 / 4096) of 105 s
    assert tail.ceiling is not None
    assert "side by side" in tail.ceiling.note
    assert all(not f.title.startswith("up to") for f in answer.findings if f.code == "rollout_bound")
