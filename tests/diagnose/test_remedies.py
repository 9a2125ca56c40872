import pytest
from paste_cases import origin, paste, setting, settings, step

from steptune.core.bottleneck import BottleneckKind
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Remedy
from steptune.core.paste import Paste
from steptune.diagnose.config_lines import Change, config_lines, language_of
from steptune.diagnose.job import read_job
from steptune.diagnose.remedies import MAX_REMEDIES, remedies

CEILING = Estimate(value=22.5, unit="s", source=Source.DERIVED)


def offered(given: Paste, kind: BottleneckKind, *present: BottleneckKind) -> tuple[Remedy, ...]:
    return remedies(read_job(given), kind, CEILING, frozenset(present))


def lines(given: Paste, kind: BottleneckKind) -> list[str]:
    return [line for remedy in offered(given, kind) for line in remedy.lines]


ROLLOUT = BottleneckKind.ROLLOUT_BOUND
TRAINER = BottleneckKind.TRAINER_BOUND


def test_at_most_three_changes_that_keep_the_algorithm_each_with_the_ceiling() -> None:
    found = offered(paste(settings=settings(actor_rollout_ref__rollout__tensor_model_parallel_size=4)), ROLLOUT)
    assert len(found) == MAX_REMEDIES
    assert all(r.keeps_algorithm and r.source and r.step_time and r.step_time.value == 22.5 for r in found)


def test_a_value_that_is_so_already_is_not_offered() -> None:
    eager_off = paste(settings=settings(actor_rollout_ref__rollout__enforce_eager=False))
    assert not any("enforce_eager" in line for line in lines(eager_off, ROLLOUT))
    eager_on = paste(settings=settings(actor_rollout_ref__rollout__enforce_eager=True))
    assert "actor_rollout_ref.rollout.enforce_eager=False" in lines(eager_on, ROLLOUT)


def test_the_users_value_is_the_start_and_is_said() -> None:
    given = paste(settings=settings(actor_rollout_ref__rollout__gpu_memory_utilization=0.6))
    found = next(r for r in offered(given, ROLLOUT) if "gpu_memory" in "".join(r.lines))
    assert found.lines == ("actor_rollout_ref.rollout.gpu_memory_utilization=0.7",)
    assert "now `actor_rollout_ref.rollout.gpu_memory_utilization=0.6`" in found.text
    assert (
        "; counted from the default of 0.5, as this input states none"
        in next(r for r in offered(paste(), ROLLOUT) if "gpu_memory" in "".join(r.lines)).text
    )
    full = paste(settings=settings(actor_rollout_ref__rollout__gpu_memory_utilization=0.85))
    assert not any("gpu_memory" in line for line in lines(full, ROLLOUT))


def test_a_change_that_needs_another_setting_waits_for_it() -> None:
    key = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    on = settings(actor_rollout_ref__actor__use_dynamic_bsz=True, **{key.replace(".", "__"): 10240})
    assert f"{key}=20480" in lines(paste(settings=on), TRAINER)
    off = settings(actor_rollout_ref__actor__use_dynamic_bsz=False, **{key.replace(".", "__"): 10240})
    assert not any(key in line for line in lines(paste(settings=off), TRAINER))


def test_without_a_value_a_change_is_words_only() -> None:
    found = offered(paste(), BottleneckKind.CHECKPOINT_BOUND)
    words = next(r for r in found if "trainer.save_freq" in r.text)
    assert words.lines == ()
    assert lines(paste(settings=settings(trainer__save_freq=20)), BottleneckKind.CHECKPOINT_BOUND)[0] == (
        "trainer.save_freq=40"
    )


def test_staleness_and_precision_come_last_and_say_so() -> None:
    found = offered(paste(), BottleneckKind.LONG_TAIL)
    assert "(touches staleness" in found[-1].text
    assert "(touches precision" in offered(paste(), BottleneckKind.BACKWARD_SLOW)[-1].text


def test_more_cache_is_not_offered_to_a_batch_of_sixteen() -> None:
    found = offered(paste(), ROLLOUT, BottleneckKind.SMALL_DECODE_BATCH)
    assert not any("gpu_memory_utilization" in line for r in found for line in r.lines)


def test_moves_of_two_keys_come_together() -> None:
    given = paste(framework="trl", settings=settings(per_device_train_batch_size=4, gradient_accumulation_steps=8))
    assert lines(given, TRAINER)[:2] == ["--per_device_train_batch_size 8", "--gradient_accumulation_steps 4"]
    odd = paste(framework="trl", settings=settings(per_device_train_batch_size=4, gradient_accumulation_steps=1))
    assert not any("accumulation" in line for line in lines(odd, TRAINER))


def test_an_unknown_framework_gets_no_lines() -> None:
    assert offered(paste(framework=None), ROLLOUT) == ()


def test_easyr1_has_names_of_its_own() -> None:
    given = paste(settings=settings(worker__reward__reward_type="sequential"))
    assert lines(given, BottleneckKind.ENVIRONMENT_BOUND) == ["worker.reward.reward_type=batch"]


def in_file(key: str, value: object, path: str) -> Paste:
    placed = setting(key, value, "file").model_copy(update={"origin": origin(key).model_copy(update={"path": path})})
    return paste(settings=(placed,))


@pytest.mark.parametrize(
    ("framework", "given", "expected"),
    [
        ("verl", paste(settings=settings(a=1)), ("a.b=2",)),
        ("nemo_rl", paste(framework="nemo_rl", settings=settings(a=1)), ("++a.b=2",)),
        ("yaml", in_file("a.b", 1, "job.yaml"), ("a:", "  b: 2")),
        ("toml", in_file("a.b", 1, "job.toml"), ("[a]", "b = 2")),
        ("slime", paste(framework="slime", settings=settings(**{"a-b": 1})), ("--a.b 2",)),
        ("trl", paste(framework="trl"), ("a:", "  b: 2")),
        ("python", paste(framework="trl", settings=(setting("a", 1, "code"),)), ("a.b=2,",)),
    ],
)
def test_changes_are_written_in_the_users_language(framework: str, given: Paste, expected: tuple[str, ...]) -> None:
    assert config_lines(read_job(given), [Change(key="a.b", value=2)]) == expected


def test_switches_have_no_value_and_cannot_be_taken_back_by_appending() -> None:
    job = read_job(paste(framework="openrlhf", settings=settings(adam_offload=True)))
    assert config_lines(job, [Change(key="adam_offload", value=False, is_flag=True)]) == ("# remove --adam_offload",)
    assert config_lines(job, [Change(key="packing_samples", value=True, is_flag=True)]) == ("--packing_samples",)


def test_dashes_are_the_users_own() -> None:
    job = read_job(paste(framework="slime", settings=settings(**{"rollout-batch-size": 32})))
    assert language_of(job) == "flag"
    assert config_lines(job, [Change(key="save_interval", value=40)]) == ("--save-interval 40",)


def test_a_split_of_devices_is_moved_only_where_the_sides_have_devices_of_their_own() -> None:
    split = settings(policy__generation__colocated__resources__num_nodes=1)
    starved = paste(step({"rollout": 1.0}, schedule="async"), framework="nemo_rl", settings=split)
    assert "++policy.generation.colocated.resources.num_nodes=2" in lines(starved, ROLLOUT)
    serial = paste(step({"rollout": 1.0}), framework="nemo_rl", settings=split)
    assert not any("num_nodes" in line for line in lines(serial, ROLLOUT))
