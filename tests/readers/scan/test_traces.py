"""Which framework a traceback or a process list speaks of, where no metric does. Lines are from public issues."""

from pathlib import Path

import pytest

from steptune.readers.read_paste import read_paste

NAMED = [
    # https://github.com/verl-project/verl/issues/302
    (
        "verl",
        "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): ray::WorkerDict.actor_rollout_generate_sequen"
        "ces() (pid=1751030, ip=10.65.194.91)\n"
        '  File "/verl/verl/workers/sharding_manager/fsdp_vllm.py", line 79, in __enter__\n'
        "    self.inference_engine.wake_up()\n"
        '  File "miniconda/envs/verl/lib/python3.10/site-packages/vllm/entrypoints/llm.py", line 1244, in wake_up\n',
    ),
    # https://github.com/chepraid/EasyR1/issues/9
    (
        "verl",
        '  File "/workspaces/EasyR1/verl/trainer/ray_trainer.py", line 657, in fit\n'
        "    actor_output = self.actor_rollout_ref_wg.update_actor(batch)\n",
    ),
    # https://github.com/ray-project/ray/issues/54399
    ("verl", '  File "/usr/local/lib/python3.12/site-packages/verl/trainer/main_ppo.py", line 222, in <module>\n'),
    # https://github.com/verl-project/verl/issues/217
    ("verl", "(WorkerDict pid=3566775) before init cache memory allocated: 5.96926464GB, reserved: 6.079643648GB\n"),
    # https://github.com/NVIDIA-NeMo/RL/issues/2702
    (
        "nemo_rl",
        "(MegatronPolicyWorker pid=35477) torch.AcceleratorError: CUDA error: out of memory\n"
        '  File "/opt/nemo-rl/nemo_rl/algorithms/grpo.py", line 724, in setup\n',
    ),
    # https://github.com/NVIDIA-NeMo/RL/issues/1137
    (
        "nemo_rl",
        "2025-09-16 10:20:03,241\tERROR worker.py:421 -- Unhandled error: ray::VllmGenerationWorker.wake_up() "
        "(pid=1101, ip=100.64.0.14, repr=VllmGenerationWorker)\n",
    ),
    # https://github.com/THUDM/slime/issues/1783
    (
        "slime",
        "ray.exceptions.RayTaskError(AcceleratorError): ray::MegatronTrainRayActor.train() (pid=15345, "
        "ip=10.217.25.171, repr=<slime.backends.megatron_utils.actor.MegatronTrainRayActor object at 0x7fa6>)\n",
    ),
    # https://github.com/THUDM/slime/issues/178
    (
        "slime",
        "(MegatronTrainRayActor pid=409797)   successfully loaded checkpoint from /root/Qwen2.5-0.5B_torch_dist\n"
        '  File "/root/slime/train.py", line 84, in <module>\n',
    ),
    # https://github.com/OpenRLHF/OpenRLHF/issues/829
    (
        "openrlhf",
        '  File "/tmp/ray/session_2025-03-03/working_dir_files/_ray_pkg_cf22861b38986192/openrlhf/cli/'
        'train_ppo_ray.py", line 437, in <module>\n'
        "ray.exceptions.RayTaskError(RuntimeError): ray::ActorModelRayActor.fit() (pid=128582, ip=10.52.117.19)\n",
    ),
    # https://github.com/OpenRLHF/OpenRLHF/issues/813
    ("openrlhf", '  File "/home/xiaonan/mycode/openrlhf_ring/openrlhf/cli/train_ppo_ray.py", line 448, in <module>\n'),
    # https://github.com/NovaSky-AI/SkyRL/issues/87
    (
        "skyrl",
        '(AsyncVLLMInferenceEngine pid=62255) (RayWorkerWrapper pid=21291)   File "/home/ubuntu/SkyRL/skyrl-train/'
        'skyrl_train/inference_engines/vllm/vllm_engine.py", line 10, in init\n',
    ),
    (
        "trl",
        '  File "/opt/venv/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py", line 1012, in compute_loss\n',
    ),
    ("trl", "File /content/unsloth_compiled_cache/UnslothGRPOTrainer.py:1489, in UnslothGRPOTrainer.train(self)\n"),
    ("prime_rl", "uv run rl @ examples/reverse_text/rl.toml --wandb.project x\n"),
    ("nemo_rl", "uv run python examples/run_grpo_math.py --config examples/configs/grpo_math_8B.yaml\n"),
    ("trl", "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model Qwen/Qwen3-4B\n"),
    ("trl", "swift rlhf --rlhf_type grpo --model_type qwen3\n"),
    # https://github.com/THUDM/slime/issues/1136
    ("slime", '(SGLangEngine pid=22439) [2025-12-17 14:10:37] INFO:  "GET /health HTTP/1.1" 200 OK\n'),
    # https://github.com/verl-project/verl/issues/3453
    ("verl", "229.84  /root/.venv/bin/python ray::TaskRunner.run\n"),
    ("torchforge", "python -m apps.grpo.main --config apps/grpo/qwen3_1_7b.yaml\n"),
    ("prime_rl", '  File "/app/src/prime_rl/trainer/rl/train.py", line 310, in train\n'),
    ("areal", '  File "/workspace/AReaL/areal/engine/fsdp_engine.py", line 412, in train_batch\n'),
]


def framework_of(tmp_path: Path, text: str) -> str | None:
    path = tmp_path / "post.txt"
    path.write_text(text, encoding="utf-8")
    return read_paste([path]).framework


@pytest.mark.parametrize(("name", "text"), NAMED)
def test_modules_and_actors_of_a_traceback_name_the_framework(tmp_path: Path, name: str, text: str) -> None:
    assert framework_of(tmp_path, f"Traceback (most recent call last):\n{text}RuntimeError: failed\n") == name


@pytest.mark.parametrize(
    "text",
    [
        "I tried verl, slime and openrlhf, all of them fail the same way on this node.\n",
        '  File "/home/me/verl/my_script.py", line 3, in <module>\n',
        '  File "/usr/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 700, in run_engine_core\n',
        '  File "/usr/lib/python3.12/site-packages/ray/_private/worker.py", line 2981, in get\n',
        '  File "/home/me/subverl/workers/x.py", line 3, in <module>\n',
    ],
)
def test_prose_folders_and_engines_name_none(tmp_path: Path, text: str) -> None:
    assert framework_of(tmp_path, f"{text}RuntimeError: failed\n") is None


def test_a_line_of_metrics_outweighs_a_traceback_of_another_framework(tmp_path: Path) -> None:
    frames = "".join(
        f'  File "/x/verl/workers/w{n}.py", line {n}\n  verl/trainer/t.py verl/utils/u.py\n' for n in range(9)
    )
    step = "step:3 - timing_s/gen:1.5 - timing_s/step:40 - a/b:1\n"
    assert framework_of(tmp_path, frames.replace("verl", "openrlhf").replace("workers", "trainer") + step) == "verl"


def test_a_launch_script_outweighs_a_traceback_of_another_framework(tmp_path: Path) -> None:
    script = "python3 -m verl.trainer.main_ppo \\\n" + "".join(
        f"    actor_rollout_ref.rollout.{key}=1 \\\n" for key in ("n", "top_p", "temperature", "seed", "top_k")
    )
    frame = '  File "/x/trl/trainer/utils.py", line 3\n  File "/x/trl/models/modeling.py", line 3\n'
    assert framework_of(tmp_path, f"{script}    trainer.nnodes=1\n\n{frame}") == "verl"
