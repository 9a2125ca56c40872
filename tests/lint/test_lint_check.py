"""The linter as a whole: silent about what it cannot know, exact about what it can."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import bases, healthy, planted
from planted import cases as all_cases

from steptune.core.finding import FindingKind, Severity
from steptune.core.paste import DeviceClaim, Paste, Setting
from steptune.core.profile import Origin
from steptune.lint.check import lint
from steptune.lint.load import frameworks, rule_set
from steptune.lint.rule import Missing

ABSENCE = frozenset(
    f"lint/{name}/{rule.id}"
    for name in frameworks()
    for rule in rule_set(name).rules
    if isinstance(rule.check, Missing)
)
"""Rules about options that are not there: a cut paste can look like it."""


def setting(key: str, value: bool | int | float | str, layer: str = "override", line: int = 1) -> Setting:
    origin = Origin(path="run.sh", line=line, key=key)
    return Setting.model_validate({"key": key, "value": value, "text": str(value), "layer": layer, "origin": origin})


def weighty(paste: Paste) -> set[str]:
    return {finding.code for finding in lint(paste) if finding.severity is not Severity.INFO} - ABSENCE


def test_without_settings_there_is_nothing_to_say() -> None:
    assert lint(Paste(paths=("run.log",), framework="verl")) == ()


def test_an_unknown_framework_still_gets_the_rules_for_everybody() -> None:
    paste = Paste(paths=("run.sh",), settings=(setting("env.CUDA_LAUNCH_BLOCKING", "1", "env"),))
    assert [finding.code for finding in lint(paste)] == ["lint/any/debug_switch"]


def test_rules_know_a_key_under_the_name_it_had_before() -> None:
    old = (setting("group_size", 1), setting("group_adv_norm", value=True, line=2))
    assert "lint/areal/group_of_one" in {f.code for f in lint(Paste(paths=("a",), framework="areal", settings=old))}
    shares = (setting("generator.gpu_memory_utilization", 1.5),)
    found = lint(Paste(paths=("a",), framework="skyrl", settings=shares))
    assert any(f.severity is Severity.FAULT and "generator.gpu_memory_utilization=1.5" in f.title for f in found)


@given(st.data())
def test_a_cut_paste_raises_nothing(data: st.DataObject) -> None:
    paste = healthy(data.draw(st.sampled_from(bases())))
    kept = data.draw(st.lists(st.sampled_from(paste.settings), unique_by=lambda s: s.key))
    assert weighty(paste.model_copy(update={"settings": tuple(kept)})) == set()


@given(st.data())
def test_values_that_cannot_be_read_raise_nothing(data: st.DataObject) -> None:
    paste = healthy(data.draw(st.sampled_from(bases())))
    lost = data.draw(st.sets(st.sampled_from([s.key for s in paste.settings])))
    hidden = tuple(
        s.model_copy(update={"value": "${X}", "text": "${X}", "is_resolved": False}) if s.key in lost else s
        for s in paste.settings
    )
    assert weighty(paste.model_copy(update={"settings": hidden})) == set()


@given(st.data())
def test_absurd_values_never_crash(data: st.DataObject) -> None:
    paste = healthy(data.draw(st.sampled_from(bases())))
    odd = st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.booleans(), st.none())
    changed = tuple(s.model_copy(update={"value": data.draw(odd)}) for s in paste.settings)
    for finding in lint(paste.model_copy(update={"settings": changed})):
        assert finding.kind is FindingKind.LINT


def test_not_a_number_is_no_memory_share() -> None:
    paste = healthy("verl_fsdp.sh")
    key = "actor_rollout_ref.rollout.gpu_memory_utilization"
    broken = (*(s for s in paste.settings if s.key != key), setting(key, float("nan")))
    assert "lint/verl/share_out_of_range" in {f.code for f in lint(paste.model_copy(update={"settings": broken}))}


def test_faults_come_first() -> None:
    keys = {"data.train_batch_size": 2, "env.CUDA_LAUNCH_BLOCKING": "1"}
    paste = healthy("verl_fsdp.sh")
    kept = [s for s in paste.settings if s.key not in keys]
    added = [setting(key, value, "env" if key.startswith("env.") else "override") for key, value in keys.items()]
    ranks = [list(Severity).index(f.severity) for f in lint(paste.model_copy(update={"settings": (*kept, *added)}))]
    assert ranks == sorted(ranks)


def test_short_spellings_of_posts_are_understood() -> None:
    keys = {"max_prompt_length": 4096, "max_response_length": 8192, "rollout.n": 8}
    post = {**keys, "actor.ppo_micro_batch_size_per_gpu": 4, "actor.use_dynamic_bsz": True}
    paste = Paste(paths=("post.txt",), framework="verl", settings=tuple(setting(k, v, "code") for k, v in post.items()))
    found = [f for f in lint(paste) if f.code == "lint/verl/micro_batch_ignored"]
    assert "ppo_max_token_len_per_gpu" in found[0].title


def test_the_devices_of_a_log_count_where_the_configuration_is_silent() -> None:
    keys = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 1, "num_generations": 8}
    paste = Paste(paths=("job.yaml",), framework="trl", settings=tuple(setting(k, v, "file") for k, v in keys.items()))
    code = "lint/trl/generation_batch_not_multiple_of_group"
    assert code not in {f.code for f in lint(paste)}
    two = paste.model_copy(update={"devices": DeviceClaim(count=2, origin=Origin(path="x", line=1, key=""))})
    assert code in {f.code for f in lint(two)}
    four = paste.model_copy(update={"devices": DeviceClaim(count=4, origin=Origin(path="x", line=1, key=""))})
    assert code not in {f.code for f in lint(four)}


def test_a_default_is_called_a_default() -> None:
    paste = healthy("skyrl.sh")
    kept = [s for s in paste.settings if not s.key.endswith(("policy_num_nodes", "num_engines"))]
    broken = (*kept, setting("generator.inference_engine.num_engines", 3))
    found = next(f for f in lint(paste.model_copy(update={"settings": broken})) if f.code.endswith("colocated_sizes"))
    assert any("default 1" in fact.text for fact in found.evidence)


def test_every_attempt_at_an_allocation_is_judged() -> None:
    keys = [("allocation_mode", "sglang.d4p1t1+d4p1t1"), ("cluster.n_nodes", 1), ("cluster.n_gpus_per_node", 4)]
    keys.append(("allocation_mode", "sglang.d2p1t1+d2p1t1"))
    paste = Paste(paths=("a.txt",), framework="areal", settings=tuple(setting(k, v, "file") for k, v in keys))
    titles = [f.title for f in lint(paste) if f.code == "lint/areal/allocation_above_gpus"]
    assert titles == ["allocation_mode sglang.d4p1t1+d4p1t1 needs 8 GPUs, the cluster section has 4"]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("lint/verl/kl_twice", "algorithm.use_kl_in_reward=false"),
        ("lint/openrlhf/slow_weight_sync", "--vllm.sync_backend nccl"),
        ("lint/trl/no_gather_with_vllm", "--ds3_gather_for_generation true"),
        ("lint/prime_rl/lora_in_memory", 'weight_broadcast.type = "filesystem"'),
        ("lint/slime/greedy_training_samples", "--rollout-temperature 1"),
    ],
)
def test_remedies_speak_the_users_language(code: str, line: str) -> None:
    case = next(case for case in all_cases() if case.code == code)
    finding = next(finding for finding in lint(planted(case)) if finding.code == code)
    assert line in [text for remedy in finding.remedies for text in remedy.lines]


def test_the_evidence_says_whether_the_framework_would_stop_the_job() -> None:
    case = next(case for case in all_cases() if case.code == "lint/nemo_rl/async_with_dynamic_sampling")
    finding = next(finding for finding in lint(planted(case)) if finding.code == case.code)
    assert "only after its setup" in finding.evidence[-1].text
