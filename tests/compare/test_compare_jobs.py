from typing import Any

import pytest

from steptune.compare.compare import compare
from steptune.core.comparison import Comparison, SpeedVerdict
from steptune.core.paste import Paste

# V37: four rounds of one tuned verl job, one step each, eight devices
ROUNDS = {
    0: {"times": [1268.0], "tokens": [5_322_462.0], "prompts": 256, "group": 5},
    1: {"times": [928.0], "tokens": [4_259_630.0], "prompts": 256, "group": 4},
    2: {"times": [440.0], "tokens": [2_137_496.0], "prompts": 128, "group": 4},
    3: {"times": [437.0], "tokens": [2_133_000.0], "prompts": 128, "group": 4},
}

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1]
FAST = [value * 0.7 for value in STEADY]
TOKENS = [1e6] * len(STEADY)


def codes(comparison: Comparison) -> set[str]:
    return {finding.code for finding in comparison.findings}


def round_of(job: Any, number: int) -> Paste:
    lengths = {"completion_mean": [4003.0], "prompt_mean": [154.8], "clipped_frac": [0.9]}
    memory = {"memory_allocated_gib": [67.4 + 4 * number]}
    return job(**ROUNDS[number], card_gib=64.0, series={**lengths, **memory})


@pytest.mark.parametrize(
    ("number", "raw", "rate", "declared"),
    [
        (1, 1268 / 928, 1.094, {"group size"}),
        (2, 1268 / 440, 1.157, {"group size", "prompts per step"}),
        (3, 1268 / 437, 1.163, {"group size", "prompts per step"}),
    ],
)
def test_a_shorter_step_with_less_work_is_judged_by_tokens(
    job: Any, number: int, raw: float, rate: float, declared: set[str]
) -> None:
    said = compare(round_of(job, 0), round_of(job, number))
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert said.raw_step_ratio is not None
    assert said.throughput_ratio is not None
    assert said.raw_step_ratio.value == pytest.approx(raw)
    assert said.throughput_ratio.value == pytest.approx(rate, abs=0.002)
    assert {one.what for one in said.work if one.is_declared} == declared
    assert {"compare/algorithm_change", "health/truncation", "implausible/memory"} <= codes(said)
    assert any("same" in text for text in said.settle)


def test_the_quoted_44_percent_is_named_for_what_it_is(job: Any) -> None:
    # prompts per second: (128 / 440) / (256 / 1268) = 1.441; tokens per device-second: 1.157
    (headline,) = (f for f in compare(round_of(job, 0), round_of(job, 2)).findings if f.code == "compare/headline")
    assert "prompts per second +44.1 %" in headline.title
    assert "tokens per device-second +15.7 %" in headline.title


def test_the_last_two_rounds_are_the_same_work_and_no_proof(job: Any) -> None:
    said = compare(round_of(job, 2), round_of(job, 3))
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert not [one for one in said.work if one.is_declared]
    assert "within what two launches" in said.reason


def test_the_same_work_in_less_time_over_many_steps_is_faster(job: Any) -> None:
    said = compare(job(STEADY, TOKENS, prompts=64, group=8), job(FAST, TOKENS, prompts=64, group=8))
    assert said.verdict is SpeedVerdict.FASTER
    assert said.throughput_ratio is not None
    assert said.throughput_ratio.value == pytest.approx(1 / 0.7, rel=1e-3)
    assert said.throughput_ratio.low is not None
    assert said.throughput_ratio.low > 1
    assert said.settle == ()


def test_the_mirror_image_is_slower(job: Any) -> None:
    said = compare(job(FAST, TOKENS, prompts=64, group=8), job(STEADY, TOKENS, prompts=64, group=8))
    assert said.verdict is SpeedVerdict.SLOWER


def test_a_job_against_itself_is_no_proof(job: Any) -> None:
    paste = job(STEADY, TOKENS, prompts=64, group=8)
    said = compare(paste, paste)
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert said.work == ()
    assert said.settings == ()
    assert codes(said) == set()


def test_one_step_each_cannot_show_twelve_percent(job: Any) -> None:
    said = compare(job([100.0], [1e6], prompts=64, group=8), job([89.0], [1e6], prompts=64, group=8))
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert any("8 steps" in text for text in said.settle)


def test_small_differences_stay_unproven_however_many_steps_one_launch_has(job: Any) -> None:
    # 4 % faster over 200 steps: the spread between two launches is not in those steps
    many = STEADY * 25
    said = compare(
        job(many, [1e6] * 200, prompts=64, group=8), job([t * 0.96 for t in many], [1e6] * 200, prompts=64, group=8)
    )
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert any("taking turns" in text for text in said.settle)


def test_a_step_time_without_tokens_counts_only_for_the_same_work(job: Any) -> None:
    same = compare(job(STEADY, prompts=64, group=8), job(FAST, prompts=64, group=8))
    assert same.verdict is SpeedVerdict.FASTER
    assert "steps per second" in same.reason
    unknown = compare(job(STEADY), job(FAST))
    assert unknown.verdict is SpeedVerdict.NO_PROOF
    assert unknown.throughput_ratio is None
    assert any("both configurations" in text for text in unknown.settle)


def test_ramp_up_is_not_a_speed_up(job: Any) -> None:
    # P01: 42.8, 32.2, 15.3 s while the asynchronous level climbs
    steady = job(STEADY, TOKENS, prompts=64, group=8)
    ramp = job([42.77, 32.21, 15.28], series={"async_level": [0.0, 1.0, 2.0]}, prompts=64, group=8)
    for said in (compare(steady, ramp), compare(ramp, steady)):
        assert said.verdict is SpeedVerdict.NO_PROOF
        assert "ramp_up" in codes(said)


def test_falling_steps_alone_are_a_ramp_up_too(job: Any) -> None:
    said = compare(job([40.0] * 6, prompts=8, group=8), job([42.77, 32.21, 15.28], prompts=8, group=8))
    assert "ramp_up" in codes(said)
    assert said.verdict is SpeedVerdict.NO_PROOF


def test_warm_up_steps_do_not_take_part(job: Any) -> None:
    warm = [900.0, *STEADY]
    said = compare(job(warm, [1e6] * 9, prompts=8, group=8), job(STEADY, TOKENS, prompts=8, group=8))
    assert said.throughput_ratio is not None
    assert said.throughput_ratio.value == pytest.approx(1.0, abs=0.01)


def test_fp8_and_another_router_at_once_with_a_lower_reward_is_no_proof(job: Any) -> None:
    # S08: 859 -> 1027 effective tokens per device-second, reward 0.678 -> 0.604, two levers, steps 0 of each
    baseline = job(
        series={"effective_tokens_per_device_s": [859.0, 789.7], "reward": [0.678, 0.658]},
        settings={"rollout.dtype": "bf16", "sglang.router_policy": "round_robin", "rollout_batch_size": 64},
    )
    both = job(
        series={"effective_tokens_per_device_s": [1027.0, 947.8], "reward": [0.604, 0.598]},
        settings={"rollout.dtype": "fp8", "sglang.router_policy": "cache_aware", "rollout_batch_size": 64},
    )
    said = compare(baseline, both)
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert {"two_changes", "health/reward_drop"} <= codes(said)
    assert said.throughput_ratio is not None
    assert said.throughput_ratio.value == pytest.approx(1.198, abs=0.005)


def test_a_reward_that_fell_blocks_a_proven_gain(job: Any) -> None:
    rewards = [0.6, 0.61, 0.6, 0.59, 0.6, 0.61, 0.6, 0.6]
    low = [value - 0.2 for value in rewards]
    work: dict[str, Any] = {"prompts": 64, "group": 8}
    said = compare(
        job(STEADY, TOKENS, **work, series={"reward": rewards}), job(FAST, TOKENS, **work, series={"reward": low})
    )
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert "health/reward_drop" in codes(said)


def test_a_reward_that_rose_is_something_to_explain(job: Any) -> None:
    # V16: the asynchronous run converges much faster than the synchronous one
    said = compare(job(series={"reward": [0.2, 0.21, 0.2]}), job(series={"reward": [0.5, 0.52, 0.51]}))
    assert "health/reward_jump" in codes(said)


def test_rewards_of_other_steps_are_not_compared(job: Any) -> None:
    late = job(series={"reward": [0.9]})
    moved = late.series[0].model_copy(update={"points": (late.series[0].points[0].model_copy(update={"step": 300}),)})
    said = compare(job(series={"reward": [0.2]}), late.model_copy(update={"series": (moved,)}))
    assert not codes(said) & {"health/reward_jump", "health/reward_drop"}


def test_work_left_to_the_default_is_declared_too(job: Any) -> None:
    # verl samples one answer a prompt unless told otherwise
    common = {"trainer.n_gpus_per_node": 8, "actor_rollout_ref.model.path": "m", "data.max_response_length": 512}
    a = job(STEADY, TOKENS, prompts=64, group=8, settings=common)
    said = compare(a, job(FAST, TOKENS, prompts=64, settings=common))
    assert [(one.what, one.a, one.b) for one in said.work if one.is_declared] == [("group size", 8.0, 1.0)]
    assert said.verdict is SpeedVerdict.NO_PROOF


def test_a_regression_names_the_phases_that_moved(job: Any) -> None:
    # N13: 70B Megatron against its rerun: refit 14 -> 26 s of 147 -> 178 s
    blog = job([147.0], phases={"weight_sync": 14.0, "train": 28.0, "rollout": 84.0, "old_logprob": 18.0})
    rerun = job([178.0], phases={"weight_sync": 26.0, "train": 31.0, "rollout": 87.0, "old_logprob": 20.0})
    said = compare(blog, rerun)
    assert said.phases[0].phase == "weight_sync"
    assert said.phases[0].b_s - said.phases[0].a_s == pytest.approx(12.0)
    same_work = {"prompts": 64, "group": 32}
    named = compare(
        job([147.0], phases={"weight_sync": 14.0, "train": 28.0}, **same_work),
        job([178.0], phases={"weight_sync": 26.0, "train": 31.0}, **same_work),
    )
    assert "weight_sync +12 s" in named.reason
    assert "of +31 s" in named.reason


def test_phases_are_standardised_to_the_tokens(job: Any) -> None:
    # V37 round 1: update_actor 327.8 -> 263.9 s is 0.0616 -> 0.0619 s per 1,000 tokens: no gain
    a = job([1268.0], [5_322_462.0], phases={"train": 327.8})
    b = job([928.0], [4_259_630.0], phases={"train": 263.9})
    (train,) = compare(a, b).phases
    assert train.a_s_per_1k == pytest.approx(0.0616, abs=1e-4)
    assert train.b_s_per_1k == pytest.approx(0.0619, abs=1e-4)
    assert train.ratio is not None
    assert train.ratio.value == pytest.approx(0.0616 / 0.0619, abs=2e-3)


def test_another_version_with_the_same_settings_is_an_upgrade(job: Any) -> None:
    said = compare(job(STEADY, version="0.6.1", prompts=8, group=8), job(STEADY, version="0.7.0", prompts=8, group=8))
    assert said.versions == ("verl 0.6.1", "verl 0.7.0")
    (upgrade,) = (f for f in said.findings if f.code == "compare/upgrade")
    assert "same settings" in upgrade.title


def test_an_upgrade_names_the_keys_that_changed_their_meaning(job: Any) -> None:
    old = {"ref_num_nodes": 4, "data.train_batch_size": 8}
    pastes = [
        job(STEADY, version=version, settings=old).model_copy(update={"framework": "openrlhf"})
        for version in ("0.9.0", "0.10.2")
    ]
    (upgrade,) = (f for f in compare(*pastes).findings if f.code == "compare/upgrade")
    assert any(evidence.text.startswith("ref_num_nodes renamed") for evidence in upgrade.evidence)


def test_versions_of_two_frameworks_are_no_upgrade(job: Any) -> None:
    other = job(STEADY, version="0.24").model_copy(update={"framework": "trl"})
    said = codes(compare(job(STEADY, version="0.7"), other))
    assert "compare/framework" in said
    assert "compare/upgrade" not in said


@pytest.mark.parametrize(("key", "asks"), [("rollout.dtype", True), ("rollout.enforce_eager", False)])
def test_a_risky_lever_asks_for_the_reward(job: Any, key: str, asks: bool) -> None:
    common = {"prompts": 64, "group": 8}
    said = compare(job(STEADY, **common, settings={key: "x"}), job(STEADY, **common, settings={key: "y"}))
    assert ("no_reward" in codes(said)) is asks


@pytest.mark.parametrize(("after", "tells"), [(500.0, False), (620.0, True), (400.0, True)])
def test_other_lengths_are_not_like_for_like(job: Any, after: float, tells: bool) -> None:
    said = compare(job(series={"completion_mean": [505.0]}), job(series={"completion_mean": [after]}))
    assert ("compare/lengths" in codes(said)) is tells


def test_twice_the_devices_are_no_speed_up(job: Any) -> None:
    a = job(STEADY, TOKENS, prompts=64, group=8, devices=8)
    b = job([t / 2 for t in STEADY], TOKENS, prompts=64, group=8, devices=16)
    said = compare(a, b)
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert said.throughput_ratio is not None
    assert said.throughput_ratio.value == pytest.approx(1.0)
    assert "compare/devices" in codes(said)


def test_device_counts_known_on_one_side_only_give_no_rate(job: Any) -> None:
    said = compare(job(STEADY, TOKENS, devices=8), job(STEADY, TOKENS, devices=None))
    assert said.throughput_ratio is None


def test_values_that_cannot_be_true_take_no_part(job: Any) -> None:
    a = job(STEADY, prompts=8, group=8, series={"tokens_per_device_s": [float("nan")] * 8})
    said = compare(a, job(STEADY, prompts=8, group=8, series={"tokens_per_device_s": [500.0] * 8}))
    assert said.throughput_ratio is None
    assert said.verdict is SpeedVerdict.NO_PROOF


def test_step_times_of_unknown_work_are_shown_and_prove_nothing(job: Any) -> None:
    phases = {"rollout": 74.0, "old_logprob": 22.5}
    one = job([96.5], phases=phases, devices=None)
    same = compare(one, one)
    assert "Nothing is timed" not in same.reason
    assert "Whether the work is the same is not known" in same.reason
    assert same.raw_step_ratio is not None
    assert same.raw_step_ratio.value == pytest.approx(1.0)
    other = compare(one, job([106.5], phases={"rollout": 74.0, "old_logprob": 32.5}, devices=None))
    assert other.verdict is SpeedVerdict.NO_PROOF
    assert "old_logprob +10 s" in other.reason


def test_two_empty_pastes_give_no_claim_and_what_to_hand_in() -> None:
    said = compare(Paste(paths=("a",)), Paste(paths=("b",)))
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert said.raw_step_ratio is None
    assert "no_timing" in codes(said)
    assert said.settle
