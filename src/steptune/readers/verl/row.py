"""The row of verl in the table of frameworks: names, marks and what its metrics mean."""

import re

from steptune.readers.formats.run_bar import RUN_BAR_KEY
from steptune.readers.reading import FrameworkReader, Gauge
from steptune.readers.verl.profile import to_reading
from steptune.readers.verl.steps import is_mark, read_steps
from steptune.readers.verl.timers import table_key

_OWN_KEY = re.compile(
    r"timing_s/|timing_per_token_ms/|critic/(?:score|rewards|advantages|returns)/|response_length(?:_non_aborted)?/"
    r"|global_seqlen/|mismatch/(?:mismatch_|rollout_is_)|val-(?:core|aux)/|fully_async/|rollout_corr/|actor/(?:pg_|ppo_kl|kl_coef)|(?:actor/)?perf/mfu/"
    r"|(?:actor/)?perf/max_memory_|training/rollout_probs_diff"
)
_OWN_SETTING = re.compile(
    r"actor_rollout_ref\.|async_training\.|algorithm\.(?:adv_estimator|use_kl_in_reward|rollout_correction)"
    r"|data\.(?:train_batch_size|max_prompt_length|max_response_length|val_batch_size|filter_overlong_prompts)$"
    r"|(?:actor|ref|rollout|critic)\.(?:ppo_|log_prob_|fsdp_config\.|megatron\.|use_dynamic_bsz|n$)"
    r"|trainer\.(?:n_gpus_per_node|nnodes|test_freq|critic_warmup|total_epochs|val_before_train)$"
    r"|critic\.(?:model|optim)\.|reward_model\.(?:reward_manager|enable)"
    r"|worker\.(?:actor|rollout|ref|reward)\.|ppo_(?:mini|micro)_batch_size|ulysses_sequence_parallel_size"
    r"|(?:ppo|log_prob)_max_token_len_per_gpu$|log_prob_(?:micro_batch_size|use_dynamic_bsz)|use_dynamic_bsz$"
    r"|free_cache_engine$|use_remove_padding$|filter_overlong_prompts$"
)
"""`worker.` is the spelling of EasyR1, a fork; short names without their section are how people quote settings."""

_MEMORY = {"max_memory_allocated_gb": "memory_allocated_gib", "max_memory_reserved_gb": "memory_reserved_gib"}

ROW = FrameworkReader(
    name="verl",
    wanted=(b"step:", b"timing_s/"),
    wanted_at_edges=(
        b"timing_per_token",
        b"critic/",
        b"actor/",
        b"perf/",
        b"length/",
        b"seqlen/",
        b"training/",
        b"actor_rollout_ref.",
        b"verl.trainer",
        b"rollout_corr/",
        b"med) = (",
        b"Step ",
        b"timing_s:",
        b" seconds",
        b"\n  ",
        b")   ",
    ),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.match(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`step:N - ... - timing_s/step:...`",
    series={
        "timing_s/step": Gauge(name="step_time"),
        "critic/score/mean": Gauge(name="reward"),
        "critic/rewards/mean": Gauge(name="reward"),
        "reward/overall": Gauge(name="reward"),
        "actor/entropy": Gauge(name="entropy"),
        "actor/entropy_loss": Gauge(name="entropy"),
        "response_length/mean": Gauge(name="completion_mean"),
        "response_length/max": Gauge(name="completion_max"),
        "response_length/clip_ratio": Gauge(name="clipped_frac"),
        "prompt_length/mean": Gauge(name="prompt_mean"),
        "perf/total_num_tokens": Gauge(name="tokens"),
        "perf/throughput": Gauge(name="tokens_per_device_s"),
        RUN_BAR_KEY: Gauge(name="step_time", is_derived=True),
        "perf/mfu/actor": Gauge(name="mfu"),
        "perf/mfu_actor": Gauge(name="mfu"),
        "mfu/actor": Gauge(name="mfu"),
        "actor/grad_norm": Gauge(name="grad_norm"),
        "actor/pg_loss": Gauge(name="loss"),
        "actor/kl_loss": Gauge(name="kl_ref"),
        "mismatch/mismatch_k3_kl": Gauge(name="mismatch_k3"),
        "mismatch/mismatch_kl": Gauge(name="mismatch_k1"),
        "mismatch/rollout_is_mean": Gauge(name="is_ratio_mean"),
        "mismatch/rollout_is_eff_sample_size": Gauge(name="ess_frac"),
        "rollout_corr/k3_kl": Gauge(name="mismatch_k3"),
        "rollout_corr/kl": Gauge(name="mismatch_k1"),
        "rollout_corr/rollout_is_mean": Gauge(name="is_ratio_mean"),
        "rollout_corr/rollout_is_eff_sample_size": Gauge(name="ess_frac"),
        "training/off_policy/trajectory_staleness/mean": Gauge(name="staleness_mean"),
        "training/off_policy/evicted_samples": Gauge(name="evicted"),
        "train/num_gen_batches": Gauge(name="gen_batches"),
        "timing_s/agent_loop/tool_calls/mean": Gauge(name="tool_time"),
        "perf/cpu_memory_used_gb": Gauge(name="cpu_memory_gib"),
        "actor/perf/cpu_memory_used_gb": Gauge(name="cpu_memory_gib"),
        "actor/lr": Gauge(name="lr"),
        **{f"{prefix}perf/{key}": Gauge(name=name) for key, name in _MEMORY.items() for prefix in ("", "actor/")},
    },
    table_key=table_key,
    version=re.compile(
        r"\bverl(?:==|:\s?| version:? | )v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:dev|rc|post)\d*)?)", re.IGNORECASE
    ),
    trainer=re.compile(
        r"\((FullyAsync|OneStepOff)\w* pid=|-m \S*(fully_async|one_step_off)_policy|trainer_mode\W+(\w+_async)"
    ),
    trace_needles=(
        b"main_task pid=",
        b"verl",
        b"WorkerDict",
        b"AgentLoopWorker",
        b"TaskRunner",
        b"(FullyAsync",
        b"ActorRolloutRef",
    ),
    traces=r"\bverl[/.](?:workers|trainer|utils|models|single_controller|third_party|experimental|protocol|tools|interactions)\b"
    r"|\bWorkerDict\b|\(AgentLoopWorker pid=|\bAgentLoopWorker\.generate_sequences|\bmain_ppo\.TaskRunner\b"
    r"|\b[\w-]{1,40}/verl[\w.-]{0,20}:[\w.]"
    r"|\((?:TaskRunner|main_task) pid=|\bray::TaskRunner\b|\(FullyAsync(?:Rollouter|Trainer) pid="
    r"|\bActorRolloutRefWorker\b",
    fact_needles=(b"verl", b"VERL", b"FullyAsync", b"OneStepOff", b"trainer_mode", b"_policy"),
)
"""verl divides memory by 1024**3 and calls it GB; `mismatch/` is the name of `rollout_corr/` in verl 0.6.

A trainer's name counts as a Ray actor, a module or a setting that only an asynchronous trainer has; prose that names
one is not enough. The DAPO recipe counts `train/num_gen_batches`, the agent loop times tool calls:
https://github.com/volcengine/verl/blob/v0.5.0/recipe/dapo/dapo_ray_trainer.py
"""
