from typing import Any

import pytest

from steptune.compare.differences import as_text, is_partial, levers, setting_differences, touch_rows, touches
from steptune.compare.side import side_of


def differences(job: Any, a: dict[str, Any], b: dict[str, Any]) -> dict[str, str]:
    found = setting_differences(side_of(job(settings=a), "A"), side_of(job(settings=b), "B"))
    return {one.key: one.touches for one in found}


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        ("actor_rollout_ref.rollout.n", "algorithm"),
        ("data.train_batch_size", "algorithm"),
        ("actor_rollout_ref.actor.optim.lr", "algorithm"),
        ("num-generations", "algorithm"),
        ("per_device_train_batch_size", "none"),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "none"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization", "none"),
        ("rollout.dtype", "precision"),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size", "precision"),
        ("orchestrator.max_off_policy_steps", "staleness"),
        ("trainer.experiment_name", "bookkeeping"),
        ("env.VLLM_USE_V1", "unknown"),
        ("nccl_timeout", "none"),
        ("logging_steps", "bookkeeping"),
    ],
)
def test_a_key_says_what_it_may_change(key: str, effect: str) -> None:
    assert touches(key) == effect


def test_every_row_names_its_source() -> None:
    assert all(row.source.startswith("https://") for row in touch_rows())


def test_equal_values_in_other_spelling_are_no_difference(job: Any) -> None:
    assert (
        differences(job, {"a.x": 1e-6, "a.y": "'vllm'", "a.z": 8}, {"a.x": 0.000001, "a.y": "vllm", "a.z": 8.0}) == {}
    )


def test_names_of_runs_are_not_listed(job: Any) -> None:
    common = {"data.train_batch_size": 8, "rollout.name": "vllm"}
    assert (
        differences(job, {**common, "trainer.experiment_name": "x"}, {**common, "trainer.experiment_name": "y"}) == {}
    )


def test_a_key_on_one_side_only_stands_against_the_default(job: Any) -> None:
    whole = {f"k{i}": i for i in range(6)}
    a, b = side_of(job(settings=whole), "A"), side_of(job(settings={**whole, "rollout.fp8": True}), "B")
    (found,) = setting_differences(a, b)
    assert (found.a, found.a_is_default, found.b, found.b_is_default) == (None, True, True, False)


def test_a_key_set_to_its_known_default_is_no_difference(job: Any) -> None:
    common = {"data.train_batch_size": 64, "actor_rollout_ref.rollout.name": "vllm"}
    said = {**common, "actor_rollout_ref.rollout.free_cache_engine": True}
    assert differences(job, common, said) == {}
    off = {**common, "actor_rollout_ref.rollout.free_cache_engine": False}
    a, b = side_of(job(settings=common), "A"), side_of(job(settings=off), "B")
    (found,) = setting_differences(a, b)
    assert (found.a, found.a_is_default, found.b) == (True, True, False)
    assert as_text(found) == "actor_rollout_ref.rollout.free_cache_engine True (default) -> False"


def test_the_table_of_knobs_comes_before_the_patterns() -> None:
    key = "actor_rollout_ref.rollout.tensor_model_parallel_size"
    assert touches(key) == "precision"
    assert touches(key, "verl") == "none"


def test_a_partial_configuration_is_silent_on_what_it_leaves_out(job: Any) -> None:
    whole = {f"k{i}": i for i in range(10)}
    a, b = side_of(job(settings=whole), "A"), side_of(job(settings={"k1": 5}), "B")
    assert is_partial(b, a)
    assert not is_partial(a, b)
    assert [one.key for one in setting_differences(a, b)] == ["k1"]


def test_no_configuration_means_no_differences(job: Any) -> None:
    assert differences(job, {"data.train_batch_size": 8}, {}) == {}


def test_only_what_is_turned_for_speed_is_a_lever(job: Any) -> None:
    a = {"data.train_batch_size": 8, "rollout.dtype": "bf16", "rollout.enforce_eager": True}
    b = {"data.train_batch_size": 4, "rollout.dtype": "fp8", "rollout.enforce_eager": False}
    found = setting_differences(side_of(job(settings=a), "A"), side_of(job(settings=b), "B"))
    assert found[0].touches == "algorithm"
    assert {one.key for one in levers(found)} == {"rollout.dtype", "rollout.enforce_eager"}
