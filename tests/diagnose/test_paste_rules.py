"""Every rule over a paste has an input on which it fires and one on which it must not."""

import pytest
from paste_cases import gpus, lengths, paste, series, setting, settings, step, work

from steptune.core.bottleneck import BottleneckKind
from steptune.core.paste import Paste
from steptune.diagnose.cause import Cause
from steptune.diagnose.causes import causes
from steptune.diagnose.job import read_job


def cause(kind: BottleneckKind, given: Paste) -> Cause | None:
    return next((c for c in causes(read_job(given)) if c.kind is kind), None)


def fires(kind: BottleneckKind, given: Paste, *, share: float, ceiling_s: float) -> Cause:
    found = cause(kind, given)
    assert found is not None
    bottleneck = found.bottleneck()
    assert bottleneck is not None
    assert bottleneck.share.value == pytest.approx(share)
    assert bottleneck.ceiling.value == pytest.approx(ceiling_s)
    return found


KIND = BottleneckKind


def test_an_update_of_40_forward_passes_is_a_slow_backward() -> None:
    # verl #3727: 16,783 s = 40 x 418.5 s; at 6.5 x it would take 2,720 s
    sick = paste(step({"rollout": 1150, "old_logprob": 418.5, "train": 16783}, step_s=18837))
    found = fires(KIND.BACKWARD_SLOW, sick, share=(16783 - 6.5 * 418.5) / 18837, ceiling_s=18837 - 16783 + 6.5 * 418.5)
    assert "40x" in found.text
    assert found.facts[0].origin is not None


@pytest.mark.parametrize("ratio", [0.5, 2.3, 6.5, 12.9])
def test_ratios_of_other_jobs_are_no_slow_backward(ratio: float) -> None:
    assert cause(KIND.BACKWARD_SLOW, paste(step({"old_logprob": 10, "train": 10 * ratio, "rollout": 5}))) is None


def test_epochs_over_the_batch_are_no_slow_backward() -> None:
    # 16 x in four epochs is 4 x each
    four = paste(step({"old_logprob": 10, "train": 160}), settings=settings(actor_rollout_ref__actor__ppo_epochs=4))
    assert cause(KIND.BACKWARD_SLOW, four) is None
    assert cause(KIND.BACKWARD_SLOW, paste(step({"old_logprob": 10, "train": 160}))) is not None


def test_an_asynchronous_update_is_not_compared_with_a_log_prob_pass() -> None:
    assert cause(KIND.BACKWARD_SLOW, paste(step({"old_logprob": 1, "train": 100}, schedule="async"))) is None


def test_sixteen_sequences_are_too_few() -> None:
    small = paste(
        step({"rollout": 31.27, "train": 12.37}),
        settings=settings(data__train_batch_size=16, actor_rollout_ref__rollout__n=1),
        devices=gpus("H100", 1),
    )
    found = fires(KIND.SMALL_DECODE_BATCH, small, share=31.27 / 43.64, ceiling_s=12.37)
    assert found.text == "16 sequences in flight: at most 16 rows an engine; a H100 turns compute-bound at about 295"
    assert [fact.text for fact in found.facts] == ["data.train_batch_size=16", "actor_rollout_ref.rollout.n=1"]


def test_rows_count_per_engine() -> None:
    # 8 devices of TP 2 are 4 engines: 64 / 4 = 16 rows
    given = paste(
        step({"rollout": 3, "train": 2}, work=work(16, 4)),
        settings=settings(actor_rollout_ref__rollout__tensor_model_parallel_size=2),
        devices=gpus("A100", 8),
    )
    found = cause(KIND.SMALL_DECODE_BATCH, given)
    assert found is not None
    assert "64 sequences in 4 engines: at most 16 rows" in found.text


@pytest.mark.parametrize("size", [(128, 8), (32, 1)])
def test_enough_sequences_are_no_small_batch(size: tuple[int, int]) -> None:
    assert cause(KIND.SMALL_DECODE_BATCH, paste(step({"rollout": 3, "train": 2}, work=work(*size)))) is None


def test_a_small_batch_that_nobody_waits_for_is_not_named() -> None:
    assert cause(KIND.SMALL_DECODE_BATCH, paste(step({"rollout": 3, "train": 9}, work=work(8, 1)))) is None
    assert cause(KIND.SMALL_DECODE_BATCH, paste(step({"rollout": 3, "train": 2}))) is None


def test_a_mean_engine_at_half_of_the_slowest_leaves_half_the_pool_idle() -> None:
    uneven = paste(
        step({"rollout": 60, "train": 40}),
        series=(
            series("timing_s/generate_sequences", 29.4),
            series("timing_s/generation_timing/max", 60.0),
        ),
    )
    # 1 - 29.4 / 60 = 0.51 of 60 s
    found = fires(KIND.IDLE_ENGINES, uneven, share=0.306, ceiling_s=69.4)
    assert "51% of the pool stands idle" in found.text


def test_even_engines_and_engines_that_hardly_matter_are_not_idle() -> None:
    even = (series("timing_s/generate_sequences", 56.0), series("timing_s/generation_timing/max", 60.0))
    assert cause(KIND.IDLE_ENGINES, paste(step({"rollout": 60, "train": 40}), series=even)) is None
    uneven = (series("timing_s/generate_sequences", 2.0), series("timing_s/generation_timing/max", 6.0))
    assert cause(KIND.IDLE_ENGINES, paste(step({"rollout": 6, "train": 94}), series=uneven)) is None
    swapped = (series("timing_s/generate_sequences", 60.0), series("timing_s/generation_timing/max", 6.0))
    assert cause(KIND.IDLE_ENGINES, paste(step({"rollout": 60, "train": 40}), series=swapped)) is None


def test_more_engines_than_sequences() -> None:
    given = paste(step({"rollout": 8, "train": 2}, work=work(2, 1)), settings=settings(vllm_num_engines=8))
    found = fires(KIND.IDLE_ENGINES, given, share=0.6, ceiling_s=4.0)
    assert "8 engines for 2 sequences" in found.text
    assert [fact.text for fact in found.facts] == ["vllm_num_engines=8"]
    assert found.origin() is not None


def test_a_number_of_sequences_below_one_is_damage_and_no_cause() -> None:
    damaged = settings(vllm_num_engines=8, samples_per_step=5e-308)
    kinds = {cause.kind for cause in causes(read_job(paste(step({"rollout": 8, "train": 2}), settings=damaged)))}
    assert KIND.IDLE_ENGINES not in kinds


def test_saves_are_spread_over_the_steps_between_them() -> None:
    # one save of 10,480 s every 20 steps is 524 s a step, on top of a step of 476 s
    given = paste(
        step({"rollout": 300, "train": 176}),
        series=(series("timing_s/save_checkpoint", 10480.0),),
        settings=settings(trainer__save_freq=20),
        num_steps_seen=1,
    )
    found = fires(KIND.CHECKPOINT_BOUND, given, share=0.524, ceiling_s=476.0)
    assert "trainer.save_freq=20" in found.text


def test_saves_seen_in_many_steps_are_counted() -> None:
    # 2 x 300 s in 10 steps of 100 s that do not hold them: 60 of 160 s
    given = paste(
        step({"rollout": 60, "train": 40}), series=(series("checkpointing", 300.0, 300.0),), num_steps_seen=10
    )
    fires(KIND.CHECKPOINT_BOUND, given, share=0.375, ceiling_s=100.0)


def test_a_long_save_without_a_step_time_has_no_share() -> None:
    alone = paste(series=(series("timing_s/save_checkpoint", 10480.0),))
    found = cause(KIND.CHECKPOINT_BOUND, alone)
    assert found is not None
    assert found.bottleneck() is None
    assert "10480 s" in found.text
    assert cause(KIND.CHECKPOINT_BOUND, paste(series=(series("timing_s/save_checkpoint", 20.0),))) is None


def test_short_saves_are_not_named() -> None:
    given = paste(step({"rollout": 60, "train": 40}), series=(series("checkpointing", 5.0, 0.0, 0.0),))
    assert cause(KIND.CHECKPOINT_BOUND, given) is None


def test_evicted_samples_waste_generation() -> None:
    counts = (series("evicted", 784.0, key="buffer/evict"), series("added", 786.0, key="buffer/add"))
    wait = step({"train": 25.0}, step_s=225.0, schedule="sync")
    given = paste(wait.model_copy(update={"roles": step({"rollout": 200.0, "train": 25.0}).roles}), series=counts)
    found = fires(KIND.WASTED_GENERATION, given, share=784 / 786 * 200 / 225, ceiling_s=225 - 784 / 786 * 200)
    assert "784 of 786" in found.text


def test_effective_tokens_far_below_raw_ones_are_waste_even_without_a_step() -> None:
    rates = (series("tokens_per_device_s", 177.6), series("effective_tokens_per_device_s", 57.2))
    found = cause(KIND.WASTED_GENERATION, paste(series=rates))
    assert found is not None
    assert found.bottleneck() is None
    assert "57 of 178" in found.text


@pytest.mark.parametrize(
    "rates",
    [
        (series("tokens_per_device_s", 938.0), series("effective_tokens_per_device_s", 859.0)),
        (series("tokens_per_device_s", 100.0), series("effective_tokens_per_device_s", 300.0)),
        (series("tokens_per_device_s", float("nan")), series("effective_tokens_per_device_s", 1.0)),
        (series("evicted", 3.0), series("added", 0.0)),
        (series("evicted", 1.0), series("added", 100.0)),
    ],
)
def test_little_waste_or_broken_counts_are_not_named(rates: tuple[object, ...]) -> None:
    assert cause(KIND.WASTED_GENERATION, paste(step({"rollout": 6, "train": 4}), series=rates)) is None


def test_rows_padded_to_the_longest_waste_training() -> None:
    given = paste(
        step({"rollout": 40, "train": 50, "old_logprob": 10}, lengths=lengths(100, 900)),
        series=(series("padded_len", 2500.0),),
    )
    # 1 - 1000 / 2500 = 0.6 of 60 s
    fires(KIND.PADDING_WASTE, given, share=0.36, ceiling_s=64.0)
    packed = given.model_copy(update={"settings": settings(trainer__remove_microbatch_padding=True)})
    assert cause(KIND.PADDING_WASTE, packed) is None


def test_padding_needs_a_mean_length() -> None:
    given = paste(step({"rollout": 40, "train": 60}), series=(series("padded_len", 2435.0),))
    assert cause(KIND.PADDING_WASTE, given) is None


def test_samples_that_wait_for_a_sandbox() -> None:
    timers = (
        series("x", 129.35, key="sandbox_provider_acquire/mean_s"),
        series("y", 16.28, key="sglang_generate_http_s/mean_s"),
    )
    alone = cause(KIND.ENVIRONMENT_BOUND, paste(series=timers))
    assert alone is not None
    assert alone.bottleneck() is None
    assert "the sandbox" in alone.text
    assert "against 16.3 s in the engine" in alone.text
    known = paste(step({"rollout": 600, "train": 400}), series=timers)
    fires(KIND.ENVIRONMENT_BOUND, known, share=0.12935, ceiling_s=870.65)


@pytest.mark.parametrize(
    "key",
    [
        "rewards/accuracy_reward/mean",
        "critic/score/mean",
        "perf/longest_sample_tokens_per_sec_without_non_generation",
        "timing_s/agent_loop/generate_sequences/mean",
        "tool_call_counts/mean",
    ],
)
def test_metrics_that_are_no_waiting_times_are_not_read_as_such(key: str) -> None:
    given = paste(step({"rollout": 600, "train": 400}), series=(series("x", 300.0, key=key),))
    assert cause(KIND.ENVIRONMENT_BOUND, given) is None


def test_a_wait_longer_than_the_rollout_is_no_part_of_it() -> None:
    given = paste(step({"rollout": 60, "train": 40}), series=(series("x", 300.0, key="timing_s/tool_calls/mean"),))
    assert cause(KIND.ENVIRONMENT_BOUND, given) is None


def test_a_rule_over_the_mean_step_brings_the_places_of_its_timers() -> None:
    found = cause(KIND.ROLLOUT_BOUND, paste(step({"rollout": 74, "train": 22})))
    assert found is not None
    assert [fact.origin.key for fact in found.facts if fact.origin] == ["timing_s/rollout"]


def test_each_kind_is_named_once_and_the_largest_share_comes_first() -> None:
    found = causes(read_job(paste(step({"rollout": 60, "train": 30, "weight_sync": 15}))))
    shares = [b.share.value for c in found if (b := c.bottleneck())]
    assert shares == sorted(shares, reverse=True)
    assert len({c.kind for c in found}) == len(found)


def test_an_unresolved_setting_is_unknown() -> None:
    open_setting = (setting("data.train_batch_size", 16, is_resolved=False), setting("actor_rollout_ref.rollout.n", 1))
    given = paste(step({"rollout": 31, "train": 12}), settings=open_setting)
    assert cause(KIND.SMALL_DECODE_BATCH, given) is None


def starved(**changes: object) -> Paste:
    # 0.6B on H200: 1.2e9 / 4.8e12 = 0.25 ms; 245.6 s / 1,024 = 240 ms, 960 floors
    keys = {"rollout_max_response_len": 1024, "rollout_num_gpus_per_engine": 1, "model": "Qwen3-0.6B"}
    size = {"rollout_batch_size": 1152, "n_samples_per_prompt": 5}
    given = paste(
        step({"rollout": 245.6, "train": 41.7}),
        framework="slime",
        settings=settings(**keys | size),
        devices=gpus("H200", 16),
    )
    return given.model_copy(update=changes)


def test_a_decode_iteration_of_a_thousand_floors_means_that_requests_are_slow() -> None:
    idle = (1 - 200 * 0.25e-3 / (245.6 / 1024)) * 245.6
    found = fires(KIND.IDLE_ENGINES, starved(), share=idle / 287.3, ceiling_s=287.3 - idle)
    assert "959 times what reading 0.6B weights takes on a H200" in found.text


def test_an_iteration_of_some_tens_of_floors_is_normal() -> None:
    # 9.1 s / 1,024 = 9 ms, 36 floors
    assert cause(KIND.IDLE_ENGINES, starved(profile=step({"rollout": 9.1, "train": 24.5}))) is None


@pytest.mark.parametrize("missing", [{"devices": None}, {"settings": ()}, {"devices": gpus("C550", 16)}])
def test_starved_engines_need_device_model_and_sizes(missing: dict[str, object]) -> None:
    assert cause(KIND.IDLE_ENGINES, starved(**missing)) is None


def test_the_reward_is_named_where_it_is_the_reward() -> None:
    slow = cause(KIND.ENVIRONMENT_BOUND, paste(step({"rollout": 100, "reward": 1500, "train": 100})))
    assert slow is not None
    assert slow.subject.startswith("the reward")
    env = cause(KIND.ENVIRONMENT_BOUND, paste(step({"rollout": 100, "env_wait": 1500, "train": 100})))
    assert env is not None
    assert env.subject.startswith("waiting for the environment")


def test_validation_inside_the_step() -> None:
    given = paste(step({"rollout": 50, "train": 30, "validate": 20}), settings=settings(trainer__test_freq=5))
    fires(KIND.VALIDATION_BOUND, given, share=0.2, ceiling_s=80.0)
    assert cause(KIND.VALIDATION_BOUND, paste(step({"rollout": 50, "train": 30, "validate": 2}))) is None


@pytest.mark.parametrize(
    ("busy", "share"),
    [
        ({"rollout": 30, "old_logprob": 80, "ref_logprob": 80, "train": 90}, 250 / 280),  # the update is no 40 % alone
        ({"rollout": 35, "old_logprob": 15, "ref_logprob": 20, "train": 30}, 65 / 100),  # nor here, where rollout leads
        ({"rollout": 10, "old_logprob": 20, "train": 70}, 70 / 100),  # the update leads alone
    ],
)
def test_passes_that_are_the_longer_side_together_are_trainer_bound(busy: dict[str, float], share: float) -> None:
    step_s = sum(busy.values())
    fires(KIND.TRAINER_BOUND, paste(step(busy)), share=share, ceiling_s=step_s * (1 - share))


def test_a_rollout_that_is_longer_than_all_passes_is_not_trainer_bound() -> None:
    assert cause(KIND.TRAINER_BOUND, paste(step({"rollout": 60, "old_logprob": 15, "train": 30}))) is None
