from collections.abc import Sequence

import pytest

from steptune.core.paste import Excerpt, ExcerptKind
from steptune.readers.scan.excerpts import LONE, LONE_AT_EDGES, MAX_EXCERPTS, WITH_CONTEXT, ExcerptCollector
from steptune.readers.scan.sleep import SleepWatcher


def excerpts(*lines: str) -> Sequence[Excerpt]:
    collector = ExcerptCollector(path="run.log")
    for number, text in enumerate(lines, start=1):
        collector.take(number, text)
    return collector.excerpts()


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/opt/verl/workers/fsdp_workers.py", line 10, in update_actor',
    "    loss.backward()",
    '  File "/opt/torch/_tensor.py", line 5, in backward',
    "    run_backward(self)",
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 79.15 GiB"


def test_an_out_of_memory_text_keeps_its_traceback_innermost_last() -> None:
    [oom] = excerpts(*TRACEBACK, OOM)
    assert (oom.kind, oom.text, oom.origin.line) == (ExcerptKind.OOM, OOM, 6)
    assert [line.split(", in ")[-1] for line in oom.context if line.startswith("File")] == ["update_actor", "backward"]
    assert oom.context[-1] == "run_backward(self)"


def test_frames_below_an_out_of_memory_text_are_its_own_where_none_are_above() -> None:
    frame = '  File "slime/utils/ppo_utils.py", line 219, in vocab_parallel_softmax'
    [oom] = excerpts(OOM, "  ...", frame, "    normalized = logits - logits_max")
    assert oom.context == (frame.strip(), "normalized = logits - logits_max")
    [oom, *_] = excerpts(OOM, "Traceback (most recent call last):", frame)
    assert oom.context == ()
    [oom, *_] = excerpts(*TRACEBACK, OOM, frame)
    assert frame.strip() not in oom.context


def test_refusals_without_the_name_of_an_error_are_kept_as_errors() -> None:
    lines = (
        "Could not override 'actor.foo'.",
        "Key 'foo' is not in struct",
        "train.py: error: unrecognized arguments: --foo 1",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 9d000",
    )
    assert [(e.kind, e.text) for e in excerpts(*lines)] == [(ExcerptKind.ERROR, line) for line in lines]


def test_the_keys_that_a_schema_refuses_stand_in_its_error() -> None:
    [error] = excerpts(
        "pydantic_core._pydantic_core.ValidationError: 2 validation errors for RLConfig",
        "orchestrator.foo",
        "  Extra inputs are not permitted [type=extra_forbidden, input_value=False, input_type=bool]",
        "    For further information visit https://errors.pydantic.dev/2.11/v/extra_forbidden",
        "orchestrator.bar",
        "and then a line of something else",
    )
    assert "RLConfig orchestrator.foo Extra inputs are not permitted" in error.text
    assert error.text.endswith("orchestrator.bar")


def test_the_rest_of_an_out_of_memory_text_may_stand_on_rows_of_its_own() -> None:
    rows = (
        "CUDA out of memory. Tried to allocate 12.50 GiB.",
        "Of the allocated memory 60.20 GiB is allocated by PyTorch,",
        "and 9.75 GiB is reserved by PyTorch but unallocated.",
    )
    [oom] = excerpts(*rows)
    assert oom.text == " ".join(rows)


def test_an_out_of_memory_text_broken_over_rows_is_one() -> None:
    rows = (
        "CUDA out of memory. Tried to allocate 2.32 GiB.",
        "GPU 0 has a total capacity of 79.15 GiB",
        "of which 1.2",
    )
    [oom] = excerpts(*rows)
    assert oom.text == " ".join(rows)


def test_frames_of_an_older_error_are_no_context() -> None:
    assert excerpts(*TRACEBACK, *["other output"] * 400, OOM)[-1].context == ()


def test_messages_that_differ_in_digits_are_counted() -> None:
    [error] = excerpts("ValueError: rank 1 failed", "ValueError: rank 2 failed", "ValueError: rank 31 failed")
    assert (error.text, error.count, error.origin.line) == ("ValueError: rank 1 failed", 3, 1)


def test_of_memory_and_progress_the_last_statement_is_kept() -> None:
    bar = "Training Progress:   0%|          | {}/624 [10:00<103:53:21, 6{}.32s/it]"
    [progress] = excerpts(bar.format(1, 0), bar.format(2, 1))
    assert (progress.kind, progress.count, "2/624" in progress.text) == (ExcerptKind.PROGRESS, 2, True)


def test_different_messages_without_end_stay_bounded() -> None:
    letters = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(600)]
    found = excerpts(*(f"ValueError: {word}" for word in letters))
    assert len(found) == MAX_EXCERPTS
    assert (found[0].origin.line, found[-1].origin.line) == (1, 600)
    assert len(excerpts(*(f"{word} ran out of memory" for word in letters), "GPU 0 has a total")) == MAX_EXCERPTS


def test_ordinary_output_is_not_kept() -> None:
    assert excerpts("INFO 10.0.0.1 - POST /generate 200 OK", "step:1 - actor/lr:1e-6", "  Filename: a.py") == ()


def test_every_kind_of_line_is_found_by_a_literal() -> None:
    lines = {
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.": ExcerptKind.OOM,
        "ValueError: No available memory for the cache blocks.": ExcerptKind.OOM,
        "RuntimeError: [enforce fail] Cannot allocate memory": ExcerptKind.OOM,
        "kernel: oom-kill:constraint=CONSTRAINT_MEMCG": ExcerptKind.OOM,
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.": ExcerptKind.OOM,
        "slurmstepd: error: Detected 3 oom-kill event(s) in step 7.0 cgroup.": ExcerptKind.OOM,
        "Allocation on device 0 would exceed allowed memory.": ExcerptKind.OOM,
        "Command exited with exit code 137": ExcerptKind.ERROR,
        "worker-0: container exit code: 137": ExcerptKind.ERROR,
        "srun: task 0: exited with exit status 137": ExcerptKind.ERROR,
        "failed (exitcode: -9) local_rank: 0 (pid: 7)": ExcerptKind.ERROR,
        "  exitcode  : -9 (pid: 7)": ExcerptKind.ERROR,
        "died with <Signals.SIGKILL: 9>.": ExcerptKind.ERROR,
        "AssertionError: only support equal chunk": ExcerptKind.ERROR,
        "The actor died unexpectedly before finishing this task.": ExcerptKind.ERROR,
        "WARNING 01-01 Sequence group 0 is preempted": ExcerptKind.WARNING,
        "UserWarning: use_reentrant is not set": ExcerptKind.WARNING,
        "INFO GPU KV cache size: 1,234 tokens": ExcerptKind.MEMORY,
        "INFO Sleep mode freed 43.82 GiB, 4.11 GiB memory is still in use": ExcerptKind.MEMORY,
        "Unsloth: vLLM loading with actual GPU Utilization = 88.": ExcerptKind.MEMORY,
        "export CUDA_LAUNCH_BLOCKING=1": ExcerptKind.EVENT,
    }
    needles = [needle.decode() for needle in (*WITH_CONTEXT, *LONE, *LONE_AT_EDGES)]
    for text, kind in lines.items():
        assert [excerpt.kind for excerpt in excerpts(text)] == [kind], text
        assert any(needle in text for needle in needles), text


def test_memory_after_sleep_is_a_series_without_steps() -> None:
    watcher = SleepWatcher(path="run.log")
    watcher.take(3, "Sleep mode freed 43.82 GiB, 4.11 GiB memory is still in use")
    watcher.take(9, "it stayed around `23-25 GiB memory is still in use`")
    [series] = watcher.series()
    assert series.name == "memory_after_sleep_gib"
    assert [(p.step, p.value, p.line) for p in series.points] == [(None, 4.11, 3), (None, 25.0, 9)]


def test_a_deep_traceback_keeps_the_frame_that_names_the_phase() -> None:
    deep = [f'  File "/opt/layers_{chr(97 + n)}.py", line {n}, in forward' for n in range(26)]
    oom = excerpts(*TRACEBACK[:2], *deep, OOM)[-1]
    assert "update_actor" in oom.context[0]
    assert oom.context[-1].endswith("in forward")


def test_tracebacks_do_not_run_together_and_ranks_do_not_repeat_theirs() -> None:
    first, second = excerpts(*TRACEBACK, "ValueError: a", TRACEBACK[0], *(TRACEBACK[3],) * 3, OOM)
    assert len(first.context) == 4
    assert second.context == (TRACEBACK[3].strip(),)


def test_rays_statement_of_the_hosts_memory_belongs_to_its_error() -> None:
    first = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."
    second = "Memory on the node (IP: 10.0.0.1) where the task was running was 121.54GB / 128.00GB (0.949523)"
    [oom] = excerpts(first, second)
    assert (oom.kind, oom.text) == (ExcerptKind.OOM, f"{first} {second}")


def test_an_error_that_vllm_logs_line_by_line_is_one_error_with_its_frames() -> None:
    prefix = "ERROR 10-25 13:08:43 [core.py:708] "
    found = excerpts(*(prefix + line for line in ("EngineCore failed to start.", *TRACEBACK, "ValueError: no")))
    assert [(e.kind, e.text, len(e.context)) for e in found] == [
        (ExcerptKind.ERROR, "EngineCore failed to start.", 0),
        (ExcerptKind.ERROR, "ValueError: no", 4),
    ]


def test_the_frames_between_two_modules_take_no_room() -> None:
    module = '  File "/opt/torch/nn/modules/module.py", line {}, in {}'
    passing = [module.format(1739, "_wrapped_call_impl"), "    return self._call_impl(*args, **kwargs)"]
    passing += [module.format(1750, "_call_impl"), "    return forward_call(*args, **kwargs)"]
    layers = [f'  File "/opt/layers_{chr(97 + n)}.py", line {n}, in forward' for n in range(24)]
    deep = [line for layer in layers for line in (*passing, layer, f"    self.{layer[13:20]}(x)")]
    oom = excerpts(*TRACEBACK[:3], *deep, OOM)[-1]
    assert oom.context[0].endswith("in update_actor")
    assert not [line for line in oom.context if "call_impl" in line]


def test_torchs_table_of_a_memory_limit_belongs_to_its_error() -> None:
    rows = (
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)",
        "Currently allocated     : 10.39 GiB",
        "Requested               : 640.00 MiB",
        "Device limit            : 11.99 GiB",
        "Free (according to CUDA): 0 bytes",
        "PyTorch limit (set by user-supplied memory fraction)",
        "                        : 17179869184.00 GiB",
    )
    [oom] = excerpts(*rows)
    assert "Requested               : 640.00 MiB" in oom.text
    assert oom.text.endswith("17179869184.00 GiB")


def test_files_that_differ_in_time_and_size_are_not_one_message() -> None:
    rows = [
        "-rw-r--r-- 1 user group 6724683249 Jul 31 22:32 __0_0.distcp",
        "-rw-r--r-- 1 user group 6676915979 Jul 31 21:24 __10_0.distcp",
        "-rw-r--r-- 1 user group 6676713555 Jul 31 21:24 __10_1.distcp",
    ]
    assert [(e.kind, e.text) for e in excerpts(*rows)] == [(ExcerptKind.EVENT, row) for row in rows]


def test_calls_written_by_hand_are_context_of_the_error_below_them() -> None:
    chain = (
        "DTensorPolicyWorker.train",
        "  → loss_fn → forward",
        "  → token_logprobs   (loss_functions.py:77)",
        "  -> strategy.backward -> torch.autograd",
    )
    [oom] = [e for e in excerpts(*chain, OOM) if e.kind is ExcerptKind.OOM]
    assert oom.context == tuple(line.strip() for line in chain)
    assert excerpts(*chain, *["other output"] * 40, OOM)[-1].context == ()


def test_code_below_the_marks_of_a_frame_that_was_cut_out_is_context() -> None:
    [oom] = excerpts(
        "           ^^^^^^^^^^^^^^^", "           ~~~~~~^^^^^^^^", "    entropy = logits.softmax(-1).log()", OOM
    )
    assert oom.context == ("entropy = logits.softmax(-1).log()",)


def test_an_unhandled_error_of_an_actor_is_an_error() -> None:
    text = "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): ray::Worker.compute_log_prob() (pid=3)"
    [error] = excerpts(text)
    assert (error.kind, error.text) == (ExcerptKind.ERROR, text)


def test_a_node_low_on_memory_is_out_of_memory() -> None:
    [oom] = excerpts("Task was killed due to the node running low on memory")
    assert oom.kind is ExcerptKind.OOM


def test_blanks_behind_the_heading_of_a_run_change_nothing() -> None:
    kinds = [[e.kind for e in excerpts(f"fp8 + --enforce-eager{end}")] for end in ("", ":", ":  ", "  ")]
    assert kinds == [[ExcerptKind.EVENT]] * 4


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Loading checkpoint shards:  50%|5| 1/2 [00:03<00:03,  3.08s/it]", ExcerptKind.EVENT),
        ("(WorkerDict pid=3) Capturing CUDA graph shapes:  9%|9| 3/35 [00:02<00:22,  1.43it/s]", ExcerptKind.EVENT),
        ("Filter (num_proc=8):  50%|5| 500/1000 [00:03<00:03, 160.08it/s]", ExcerptKind.EVENT),
        ("Training Progress:   3%|3| 12/435 [30:03<17:40:03, 150.08s/it]", ExcerptKind.PROGRESS),
        (" 17%|1| 1/6 [02:52<14:23, 172.72s/it]", ExcerptKind.PROGRESS),
        ("Episode [1/2]:  5%|5| 1/20 [02:52<14:23, 172.72s/it]", ExcerptKind.PROGRESS),
    ],
)
def test_a_bar_over_weights_graphs_or_data_is_no_progress_of_the_training(text: str, kind: ExcerptKind) -> None:
    assert [excerpt.kind for excerpt in excerpts(text)] == [kind]


def test_a_notebooks_traceback_is_context_and_its_heading_no_second_error() -> None:
    [oom] = excerpts(
        "OutOfMemoryError                          Traceback (most recent call last)",
        "File ~/lib/transformers/trainer.py:2245, in Trainer.train(self, resume_from_checkpoint)",
        "   2244 else:",
        "-> 2245     return inner_training_loop(",
        "/usr/lib/trl/trainer/grpo_trainer.py in _get_per_token_logps(self, model)",
        "    520         logits = model(input_ids).logits",
        "--> 521         return selective_log_softmax(logits, input_ids)",
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB.",
    )
    assert (oom.kind, oom.count) == (ExcerptKind.OOM, 1)
    assert oom.context == (
        'File "~/lib/transformers/trainer.py", line 2245, in train',
        "return inner_training_loop(",
        'File "/usr/lib/trl/trainer/grpo_trainer.py", in _get_per_token_logps',
        "return selective_log_softmax(logits, input_ids)",
    )
