from typing import Any

import pytest

from steptune.core.finding import Finding, Severity
from steptune.core.paste import ExcerptKind, Paste
from steptune.memory.advise import memory_findings
from steptune.memory.tables import remedy_rules
from steptune.published.declared import normal_key
from steptune.published.keys import known_keys
from steptune.published.knobs import knobs

LOGPROB_FRAMES = ('File "/verl/verl/workers/fsdp_workers.py", line 782, in compute_log_prob',)
BACKWARD_FRAMES = ("loss.backward()",)
LOGITS_FRAMES = ("logprobs = torch.log_softmax(logits.float(), dim=-1)",)
TEXT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB. GPU 0 has a total capacity of 80.00 GiB "
    "of which 8.00 GiB is free. Of the allocated memory 60.00 GiB is allocated by PyTorch, and {reserved:.2f} GiB is "
    "reserved by PyTorch but unallocated."
)


def only(findings: tuple[Finding, ...]) -> Finding:
    (finding,) = findings
    return finding


def lines(finding: Finding) -> list[str]:
    return [line for remedy in finding.remedies for line in remedy.lines]


def advised(oom_paste: Any, frames: Any, framework: str, settings: Any, reserved: float = 1.0) -> Finding:
    return only(
        memory_findings(
            oom_paste(TEXT.format(reserved=reserved), frames=frames, framework=framework, settings=settings)
        )
    )


def test_the_micro_batch_shrinks_to_the_nearest_divisor_that_fits(oom_paste: Any) -> None:
    # 8 of 12 GiB are free, so two thirds may stay: of 12 samples at most 8, and 6 is the largest divisor of 12 below
    settings = {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 12}
    finding = advised(oom_paste, LOGPROB_FRAMES, "verl", settings)
    assert finding.code == "oom/logprob"
    assert "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=6" in lines(finding)


def test_a_token_budget_never_falls_below_one_sequence(oom_paste: Any) -> None:
    # two thirds of 10,240 would be 6,656 tokens; one sequence may have 1,024 + 8,192 = 9,216
    settings = {
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": 10_240,
        "data.max_prompt_length": 1024,
        "data.max_response_length": 8192,
    }
    finding = advised(oom_paste, BACKWARD_FRAMES, "verl", settings)
    assert finding.code == "oom/backward"
    assert lines(finding)[0] == "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=9216"
    assert not [line for line in lines(finding) if "micro_batch" in line]


def test_a_micro_batch_of_one_is_not_advised_again(oom_paste: Any) -> None:
    settings = {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 1}
    finding = advised(oom_paste, BACKWARD_FRAMES, "verl", settings)
    assert not [line for line in lines(finding) if "micro_batch" in line]
    assert lines(finding)


def test_trl_keeps_its_batch_by_accumulating_more(oom_paste: Any) -> None:
    settings = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    finding = advised(oom_paste, BACKWARD_FRAMES, "trl", settings)
    # two thirds of 8 is 5.3, so 4 samples twice as often
    assert {"--per_device_train_batch_size 4", "--gradient_accumulation_steps 4"} <= set(lines(finding))


def test_python_arguments_are_answered_in_python(oom_paste: Any) -> None:
    settings = {"max_steps": 5}  # TRL's own per-device batch is 8
    paste = oom_paste(TEXT.format(reserved=1.0), frames=BACKWARD_FRAMES, framework="trl", settings=settings)
    assert "per_device_train_batch_size=4," in lines(only(memory_findings(paste)))


def test_flags_are_answered_with_flags(oom_paste: Any) -> None:
    settings = {"use-dynamic-batch-size": True, "max-tokens-per-gpu": 9216}
    finding = advised(oom_paste, BACKWARD_FRAMES, "slime", settings)
    assert "--max-tokens-per-gpu 6144" in lines(finding)


def test_old_names_are_answered_in_old_names(oom_paste: Any) -> None:
    settings = {"micro_train_batch_size": 4, "vllm_gpu_memory_utilization": 0.6}
    finding = advised(oom_paste, BACKWARD_FRAMES, "openrlhf", settings)
    assert "--micro_train_batch_size 2" in lines(finding)
    assert not [line for line in lines(finding) if "." in line.split()[0]]
    new = advised(oom_paste, BACKWARD_FRAMES, "openrlhf", {"train.micro_batch_size": 4})
    assert "--train.micro_batch_size 2" in lines(new)


def test_no_line_is_said_twice(oom_paste: Any) -> None:
    finding = advised(oom_paste, ("get_reference_policy_logprobs",), "nemo_rl", {"policy.logprob_batch_size": 8})
    assert lines(finding).count("policy.logprob_batch_size=4") == 1


def test_a_nested_key_of_another_file_is_written_as_yaml(oom_paste: Any) -> None:
    finding = advised(oom_paste, ("torch/optim/adamw.py",), "trl", {"per_device_train_batch_size": 8})
    assert "deepspeed_config.offload_optimizer_device: cpu" in lines(finding)


def test_a_key_that_follows_another_starts_from_its_value(oom_paste: Any) -> None:
    # the log-prob batch is the training micro batch unless set: 8 may keep two thirds, so 4
    finding = advised(oom_paste, ("get_logprobs",), "nemo_rl", {"policy.train_micro_batch_size": 8})
    assert "policy.logprob_batch_size=4" in lines(finding)


def test_without_a_configuration_nothing_is_computed_from_defaults(oom_paste: Any) -> None:
    finding = only(memory_findings(oom_paste(TEXT.format(reserved=1.0), frames=BACKWARD_FRAMES, framework="trl")))
    assert not [line for line in lines(finding) if "batch_size" in line]
    assert any("micro batch" in remedy.text for remedy in finding.remedies)


def test_a_framework_is_not_offered_what_it_has_no_key_for(oom_paste: Any) -> None:
    finding = advised(oom_paste, BACKWARD_FRAMES, "trl", {"per_device_train_batch_size": 8})
    assert not [remedy for remedy in finding.remedies if remedy.keeps_algorithm and not remedy.lines]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"actor_rollout_ref.actor.megatron.tensor_model_parallel_size": 4}, "actor.megatron.optimizer_offload=True"),
        ({"actor_rollout_ref.actor.strategy": "fsdp2"}, "actor.fsdp_config.optimizer_offload=True"),
    ],
)
def test_the_training_backend_decides_the_key(oom_paste: Any, settings: dict[str, Any], expected: str) -> None:
    finding = advised(oom_paste, ("torch/optim/adamw.py",), "verl", settings)
    assert lines(finding)[0] == f"actor_rollout_ref.{expected}"


def test_other_processes_on_the_card_come_first(oom_paste: Any) -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB. GPU 0 has a total capacity of "
        "23.64 GiB of which 264.00 MiB is free. Process 20 has {others} memory in use. Including non-PyTorch memory, "
        "this process has 8.04 GiB memory in use."
    )
    crowded, alone = (
        only(memory_findings(oom_paste(text.format(others=others), frames=BACKWARD_FRAMES, framework="verl")))
        for others in ("14.85 GiB", "419.48 MiB")
    )
    assert crowded.remedies[0].text.startswith("Another process")
    assert not any(remedy.text.startswith("Another process") for remedy in alone.remedies)


def test_more_free_than_needed_is_said(oom_paste: Any) -> None:
    text = TEXT.format(reserved=1.0).replace("8.00 GiB is free", "18.00 GiB is free")
    finding = only(memory_findings(oom_paste(text)))
    assert any("more was free than needed" in evidence.text for evidence in finding.evidence)


def test_every_key_that_is_advised_exists() -> None:
    passed_on = ("sglang-",)  # slime hands these flags on to SGLang
    for rule in remedy_rules():
        for move in rule.keys:
            known = {normal_key(key) for key in known_keys(move.framework)}
            known |= {normal_key(knob.key) for knob in knobs(move.framework)} if known else set()
            for key in (move.key, *move.when, *([move.follows] if move.follows else [])):
                assert not known or key.startswith(passed_on) or normal_key(key) in known, (rule.name, key)


@pytest.mark.parametrize(
    ("frame", "phase"),
    [
        ('File "/x/site-packages/transformers/models/qwen3/modeling_qwen3.py", line 80, in forward', "forward"),
        ('File "/x/site-packages/transformers/modeling_utils.py", line 4264, in from_pretrained', "load"),
        ('File "/x/site-packages/vllm/model_executor/models/qwen3.py", line 80, in forward', "rollout"),
        ('File "/x/site-packages/torch/distributed/distributed_c10d.py", line 9, in all_gather', "collective"),
        ('File "/x/train.py", line 9, in main', "unknown"),
    ],
)
def test_innermost_frames_alone_still_say_something(frame: str, phase: str, oom_paste: Any) -> None:
    finding = only(memory_findings(oom_paste("torch.OutOfMemoryError: CUDA out of memory.", frames=(frame,))))
    assert finding.code == f"oom/{phase}"


def test_the_size_of_the_logits_is_worked_out(oom_paste: Any) -> None:
    # 4 x (1,024 + 4,096) tokens x 151,936 x 4 bytes = 11.6 GiB
    settings = {
        "actor_rollout_ref.model.path": "MODELS/Qwen3-8B",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
        "data.max_prompt_length": 1024,
        "data.max_response_length": 4096,
    }
    finding = advised(oom_paste, LOGITS_FRAMES, "verl", settings)
    assert finding.code == "oom/logits"
    stated = " ".join(evidence.text for evidence in finding.evidence)
    assert "11.6 GiB" in stated
    # 12 GiB / (151,936 x 4 bytes) = 21,201 tokens
    assert "21,201 tokens" in stated
    assert lines(finding)[0] == "actor_rollout_ref.actor.entropy_from_logits_with_chunking=True"


def test_what_changes_the_algorithm_is_only_warned_of(oom_paste: Any) -> None:
    finding = advised(oom_paste, LOGITS_FRAMES, "verl", {})
    assert all(remedy.lines == () for remedy in finding.remedies if not remedy.keeps_algorithm)
    assert not [line for line in lines(finding) if "max_response_length" in line or "rollout.n=" in line]
    assert any(remedy.text.startswith("Do not shorten") for remedy in finding.remedies)


@pytest.mark.parametrize(("framework", "advises"), [("verl", False), ("nemo_rl", False), ("prime_rl", True)])
def test_expandable_segments_are_never_advised_with_sleep_mode(oom_paste: Any, framework: str, advises: bool) -> None:
    finding = advised(oom_paste, BACKWARD_FRAMES, framework, {}, reserved=20.0)
    assert any("expandable_segments:True" in line for line in lines(finding)) is advises
    assert any("garbage_collection_threshold" in line for line in lines(finding)) is not advises


def test_little_fragmentation_needs_no_word(oom_paste: Any) -> None:
    finding = advised(oom_paste, BACKWARD_FRAMES, "prime_rl", {}, reserved=1.0)
    assert not [line for line in lines(finding) if "ALLOC_CONF" in line]


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        # 9.75 of 69.95 GiB that PyTorch holds are unusable, 14 %; the card is not stated
        ("Of the allocated memory 60.20 GiB is allocated by PyTorch, and 9.75 GiB is reserved by PyTorch but", "large"),
        ("Of the allocated memory 66.20 GiB is allocated by PyTorch, and 0.75 GiB is reserved by PyTorch but", None),
        # 5 + 1 GiB would hold the 5.5 that are needed, though 5 of 80 GiB alone are no large part
        (
            "GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is free. Of the allocated memory 70.00 GiB is "
            "allocated by PyTorch, and 5.00 GiB is reserved by PyTorch but",
            "in one piece",
        ),
    ],
)
def test_fragmentation_is_seen_without_the_cards_size_and_where_it_decides(
    oom_paste: Any, stated: str, says: str | None
) -> None:
    text = f"CUDA out of memory. Tried to allocate 5.50 GiB. {stated} unallocated."
    finding = only(memory_findings(oom_paste(text)))
    treated = [r.text for r in finding.remedies if any("expandable_segments" in line for line in r.lines)]
    assert bool(treated) is (says is not None)
    assert says is None or says in treated[0]


def test_a_card_that_is_already_taken_is_asked_for_what_is_free(oom_paste: Any) -> None:
    # 31.44 of 47.38 GiB are free: 0.663, less 0.02 of head-room
    text = (
        "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization "
        "(0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    finding = only(memory_findings(oom_paste(text, framework="openrlhf")))
    assert lines(finding)[0] == "--vllm.gpu_memory_utilization 0.64"


def test_no_room_for_a_cache_asks_for_more_not_less(oom_paste: Any) -> None:
    text = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
    settings = {"actor_rollout_ref.rollout.gpu_memory_utilization": 0.4}
    finding = only(memory_findings(oom_paste(text, framework="verl", settings=settings)))
    assert lines(finding)[0] == "actor_rollout_ref.rollout.gpu_memory_utilization=0.5"


def test_the_engine_is_told_the_longest_sequence_of_the_job(oom_paste: Any) -> None:
    text = (
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (0.71 GiB)."
    )
    settings = {"data.max_prompt_length": 1024, "data.max_response_length": 4096}
    finding = only(memory_findings(oom_paste(text, framework="verl", settings=settings)))
    assert lines(finding)[0] == "actor_rollout_ref.rollout.max_model_len=5120"


def test_a_wake_up_lowers_the_share_by_what_is_missing(oom_paste: Any) -> None:
    text = "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62"
    settings = {"actor_rollout_ref.rollout.gpu_memory_utilization": 0.6}
    finding = only(memory_findings(oom_paste(text, framework="verl", settings=settings)))
    assert "actor_rollout_ref.rollout.gpu_memory_utilization=0.5" in lines(finding)


def test_weight_sync_frames_ask_for_a_smaller_bucket(oom_paste: Any) -> None:
    frames = ("refit_policy_generation(", "stream_weights_via_ipc_zmq")
    finding = advised(oom_paste, frames, "nemo_rl", {"policy.refit_buffer_size_gb": 8})
    assert finding.code == "oom/refit"
    assert lines(finding)[0] == "policy.refit_buffer_size_gb=4"


def test_every_rank_and_the_controller_print_one_failure(oom_paste: Any) -> None:
    text = TEXT.format(reserved=1.0)
    ranks = oom_paste(text, text, frames=BACKWARD_FRAMES, framework="verl", count=8)
    again = oom_paste("ray.exceptions.RayTaskError(OutOfMemoryError): CUDA out of memory")
    both = ranks.model_copy(update={"excerpts": (*ranks.excerpts, *again.excerpts)})
    finding = only(memory_findings(both))
    assert finding.code == "oom/backward"
    assert any("16 times" in evidence.text for evidence in finding.evidence)


def test_two_phases_that_fail_are_two_findings(oom_paste: Any) -> None:
    one = oom_paste(TEXT.format(reserved=1.0), frames=BACKWARD_FRAMES)
    other = oom_paste("RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62")
    both = one.model_copy(update={"excerpts": (*one.excerpts, *other.excerpts)})
    assert {finding.code for finding in memory_findings(both)} == {"oom/backward", "oom/wake_up"}


LOST = (
    "Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. "
    "(1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called."
)
"""https://github.com/verl-project/verl/issues/472"""


@pytest.mark.parametrize(
    ("text", "code", "severity"),
    [
        ("Main process exited with code 137", "oom/host", Severity.WARNING),
        ("exitcode  : -9 (pid: 620208)", "oom/host", Severity.WARNING),
        ("CalledProcessError: died with <Signals.SIGKILL: 9>.", "oom/host", Severity.WARNING),
        (LOST, "memory/worker_lost", Severity.INFO),
    ],
)
def test_a_kill_without_a_cause_is_told_as_such(text: str, code: str, severity: Severity, oom_paste: Any) -> None:
    finding = only(memory_findings(oom_paste(text, kind=ExcerptKind.ERROR)))
    assert (finding.code, finding.severity) == (code, severity)
    assert finding.remedies


@pytest.mark.parametrize("text", ["exited with code 1", "exit code: 0", "exitcode: -11 (SIGSEGV)", "code 1370"])
def test_other_exits_are_not_about_memory(text: str, oom_paste: Any) -> None:
    assert memory_findings(oom_paste(text, kind=ExcerptKind.ERROR)) == ()


def test_a_kill_is_not_told_where_a_device_failed(oom_paste: Any) -> None:
    both = oom_paste("exit code 137", LOST, TEXT.format(reserved=1.0), frames=BACKWARD_FRAMES)
    assert {finding.code for finding in memory_findings(both)} == {"oom/backward"}


def test_the_memory_savers_message_is_no_crash(oom_paste: Any) -> None:
    finding = only(memory_findings(oom_paste("TorchMemorySaver::malloc return OOM", framework="slime")))
    assert (finding.code, finding.severity) == ("memory/non_fatal", Severity.INFO)


def test_a_share_that_was_not_kept_is_told(oom_paste: Any) -> None:
    text = "Unsloth: vLLM loading ... with actual GPU Utilization= 88."
    settings = {"gpu_memory_utilization": 0.5, "env.UNSLOTH_VLLM_STANDBY": 1}
    paste = oom_paste(text, framework="trl", settings=settings, kind=ExcerptKind.MEMORY)
    finding = only(memory_findings(paste))
    assert finding.code == "memory/override"
    assert "0.88" in finding.title
    assert "0.5 was asked" in finding.title
    assert lines(finding) == ["export UNSLOTH_VLLM_STANDBY=0"]


def test_a_share_that_was_kept_is_silent(oom_paste: Any) -> None:
    text = "Unsloth: vLLM loading ... with actual GPU Utilization= 49.5"
    paste = oom_paste(text, settings={"gpu_memory_utilization": 0.5}, kind=ExcerptKind.MEMORY)
    assert memory_findings(paste) == ()


TABLE = (
    "| Item | ratio=0.5 run | ratio=0.45 run | delta |",
    "| **PyTorch fragmentation (reserved - allocated)** | **1.29 GB** | **7.04 GB** | **+5.75 GB** |",
)


@pytest.mark.parametrize(
    ("row", "fires"),
    [("| Free at OOM | 6.83 GB | 2.91 GB | -3.92", True), ("| Free at OOM | 2.91 GB | 6.83 GB | +3.92", False)],
)
def test_a_smaller_share_that_left_less_is_told(oom_paste: Any, row: str, fires: bool) -> None:
    # N08: ratio 0.5 -> 0.45, free 6.83 -> 2.91 GB
    paste = oom_paste(*TABLE, row, kind=ExcerptKind.EVENT)
    found = [finding for finding in memory_findings(paste) if finding.code == "memory/not_monotone"]
    assert bool(found) is fires
    assert not found or "7.04" in found[0].evidence[0].text


def test_the_assertion_of_the_two_allocators_is_a_fault(oom_paste: Any) -> None:
    text = "AssertionError: Expandable segments are not compatible with memory pool."
    finding = only(memory_findings(oom_paste(text)))
    assert (finding.code, finding.severity) == ("memory/pool_conflict", Severity.FAULT)


@pytest.mark.parametrize(("sleeps", "fires"), [(True, True), (False, False)])
def test_the_two_allocators_are_seen_in_the_settings_already(oom_paste: Any, sleeps: bool, fires: bool) -> None:
    settings = {
        "env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "actor_rollout_ref.rollout.free_cache_engine": sleeps,
    }
    found = memory_findings(oom_paste(framework="verl", settings=settings))
    assert [finding.code for finding in found] == (["memory/pool_conflict"] if fires else [])


def test_an_empty_paste_says_nothing() -> None:
    assert memory_findings(Paste(paths=())) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("where the task was running was 478.86GB / 503.52GB (0.951), which exceeds", "478.86 of 503.52 GiB"),
        ("where the task was running was 121.5 GB / 128.0 GB (0.949)", "121.5 of 128 GiB"),
        ("where the task was running was 478.86", "478.86 GiB"),
    ],
)
def test_a_nodes_memory_is_quoted(text: str, said: str, oom_paste: Any) -> None:
    head = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory. Memory on the node "
    finding = only(memory_findings(oom_paste(head + text)))
    assert (finding.code, said in finding.title) == ("oom/host", True)
    assert not any("held by tensors" in evidence.text for evidence in finding.evidence)


def test_sleeping_engines_stand_by_a_host_failure(oom_paste: Any) -> None:
    settings = {"vllm.enable_sleep": True, "vllm.num_engines": 16}
    text = "Task was killed due to the node running low on memory"
    finding = only(memory_findings(oom_paste(text, framework="openrlhf", settings=settings)))
    assert any("16 sleeping engines" in evidence.text for evidence in finding.evidence)
    awake = only(memory_findings(oom_paste(text, framework="openrlhf", settings={"vllm.num_engines": 16})))
    assert not any("sleeping engines keep" in evidence.text for evidence in awake.evidence)


def test_a_shortened_message_still_has_its_figures(oom_paste: Any) -> None:
    text = "torch.OutOfMemoryError: Tried to allocate 12.60 GiB. GPU had 12.44 GiB free of 79.19"
    finding = only(memory_findings(oom_paste(text, frames=("from_parallel_logits_to_logprobs(logits)",))))
    assert finding.code == "oom/logits"
    assert "12.60 GiB needed, 12.44 GiB free" in finding.title


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ("RuntimeError: Engine core initialization failed. See root cause above.", "oom/engine_start"),
        ("ray.exceptions.RayTaskError: ray::WorkerDict.actor_rollout_generate_sequences() (pid=7)", "oom/rollout"),
        ("ray.exceptions.RayTaskError: ray::WorkerDict.ref_compute_ref_log_prob() (pid=7)", "oom/logprob"),
        ("ValueError: nothing to do with it", "oom/unknown"),
    ],
)
def test_the_controllers_own_error_names_the_phase(after: str, code: str, oom_paste: Any) -> None:
    both = oom_paste("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB.")
    [failed] = both.excerpts
    error = failed.model_copy(
        update={"kind": ExcerptKind.ERROR, "text": after, "origin": failed.origin.model_copy(update={"line": 14})}
    )
    near = both.model_copy(update={"excerpts": (failed, error)})
    assert code in {finding.code for finding in memory_findings(near)}
    far = error.model_copy(update={"origin": failed.origin.model_copy(update={"line": 410})})
    assert "oom/unknown" in {f.code for f in memory_findings(both.model_copy(update={"excerpts": (failed, far)}))}


def test_an_unknown_framework_is_told_the_names_to_look_for(oom_paste: Any) -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB."
    finding = only(memory_findings(oom_paste(text, frames=("EngineCoreProc(vllm_config)",), framework=None)))
    assert finding.code == "oom/engine_start"
    assert any("gpu_memory_utilization" in remedy.text for remedy in finding.remedies)
    assert not any(remedy.lines for remedy in finding.remedies)


@pytest.mark.parametrize(
    ("framework", "frames", "key"),
    [
        (
            "slime",
            ["ray::MegatronTrainRayActor.train()", "compute_log_probs(logits.clone(), tokens, group)"],
            "log-probs-ch",
        ),
        ("nemo_rl", ["MegatronPolicyWorker.train", "DistributedLogprob.forward -> _log_softmax"], "chunk"),
        ("nemo_rl", ["get_next_token_logprobs_from_logits (model_utils.py:1383)"], "chunk"),
        (None, ["sum_exp = vocab_parallel_logits.exp().sum(-1)"], "chunk"),
    ],
)
def test_logits_inside_the_loss_are_treated_in_the_frameworks_own_keys(
    framework: str | None, frames: list[str], key: str, oom_paste: Any
) -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 58.15 GiB."
    finding = only(memory_findings(oom_paste(text, frames=frames, framework=framework)))
    assert finding.code == "oom/logits"
    said = "\n".join(part for remedy in finding.remedies for part in (remedy.text, *remedy.lines))
    assert key in said, said


@pytest.mark.parametrize(
    ("framework", "frame"),
    [
        ("verl", "ray::WorkerDict.critic_update_critic() (pid=7, ip=10.0.0.1)"),
        ("skyrl", "ray::FSDPPolicyWorkerBase.ppo_train()"),
        ("trl", 'File "/x/transformers/trainer.py", line 3675, in training_step'),
    ],
)
def test_an_update_named_as_a_whole_leaves_the_phase_open_and_gets_the_trainers_remedies(
    framework: str, frame: str, oom_paste: Any
) -> None:
    finding = only(memory_findings(oom_paste("torch.OutOfMemoryError: CUDA out of memory.", frames=[frame])))
    assert finding.code == "oom/unknown"
    assert "in a training update" in finding.title
    assert any("micro batch" in remedy.text for remedy in finding.remedies)
    inner = [frame, 'File "/x/strategy.py", line 9, in backward']
    text = "torch.OutOfMemoryError: CUDA out of memory."
    assert only(memory_findings(oom_paste(text, frames=inner, framework=framework))).code == "oom/backward"


@pytest.mark.parametrize("frame", ["-> fsdp_strategy.backward -> torch.autograd", "self.strategy.backward(loss)"])
def test_a_shortened_call_chain_names_the_backward_pass(frame: str, oom_paste: Any) -> None:
    told = "torch.OutOfMemoryError: Tried to allocate 6.10 GiB. GPU 1 has 80.00 GiB total capacity, 2.50 GiB free."
    finding = only(memory_findings(oom_paste(told, frames=["ray::Worker.ppo_train() ->", frame], framework="skyrl")))
    assert finding.code == "oom/backward"
    assert "6.10 GiB needed, 2.50 GiB free of 80.00 GiB" in finding.title
    assert any("80.00 GiB" in fact.text for fact in finding.evidence[1:])


@pytest.mark.parametrize(
    ("framework", "settings", "line"),
    [
        ("openrlhf", {"micro_train_batch_size": 4, "zero_stage": 2}, "--adam_offload"),
        ("trl", {"per_device_train_batch_size": 4, "gradient_checkpointing": False}, "gradient_checkpointing"),
        ("slime", {"micro-batch-size": 4, "recompute-granularity": "selective"}, "--recompute-granularity full"),
    ],
)
def test_an_open_phase_still_gets_the_trainers_keys_under_a_condition(
    framework: str, settings: dict[str, Any], line: str, oom_paste: Any
) -> None:
    finding = advised(oom_paste, (), framework, settings)
    assert finding.code == "oom/unknown"
    assert any(line in said for said in lines(finding)), lines(finding)
    assert all(remedy.text.startswith("If training ran out") for remedy in finding.remedies if remedy.lines)


def test_the_call_that_ray_repeats_and_the_text_it_repeats_are_one_failure(oom_paste: Any) -> None:
    header = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_update_actor() (pid=7)"
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.80 GiB. run_backward"
    assert [finding.code for finding in memory_findings(oom_paste(header, text))] == ["oom/backward"]
    assert [finding.code for finding in memory_findings(oom_paste(header))] == ["oom/unknown"]


def test_frames_of_an_upcast_to_float_are_the_logits(oom_paste: Any) -> None:
    frames = ('File "megatron/core/transformer/module.py", line 373, in float_conversion', "val = val.float()")
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 61.34 GiB."
    assert only(memory_findings(oom_paste(text, frames=frames))).code == "oom/logits"


def test_rays_own_link_tells_a_kill_whose_first_line_is_cut_off(oom_paste: Any) -> None:
    text = (
        "Refer to the documentation on how to address the out of memory issue: "
        "https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html. Consider provisioning more memory"
    )
    assert only(memory_findings(oom_paste(text))).code == "oom/host"


def test_a_library_that_will_not_start_is_no_proof_of_a_full_device(oom_paste: Any) -> None:
    text = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    finding = only(memory_findings(oom_paste(text, kind=ExcerptKind.ERROR)))
    assert finding.severity is Severity.WARNING
    assert "does not prove it" in finding.title
    proven = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
    assert [f.severity for f in memory_findings(oom_paste(text, proven))] == [Severity.FAULT]


def test_what_the_killed_task_held_is_told(oom_paste: Any) -> None:
    text = (
        "Memory on the node (IP: 10.0.0.1) where the task (actor ID: b, name=TaskRunner.__init__, pid=12, memory "
        "used=180.50GB) was running was 240.00GB / 250.00GB (0.96), which exceeds the memory usage threshold"
    )
    said = [e.text for e in only(memory_findings(oom_paste(text))).evidence]
    assert "the task that was killed, TaskRunner.__init__, held 180.5 GiB of it" in said
