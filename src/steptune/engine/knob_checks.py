"""Knobs that the trainer cannot follow, refused before it starts. The tuner asks `adapters.embedded.conflicts`."""

from steptune.core.errors import JobError, explain
from steptune.core.job import AlgorithmSpec, JobSpec
from steptune.core.model import DenseModel, ModelSpec
from steptune.engine.compiler import check_compiler
from steptune.engine.knobs import MAX_REPLICAS, EngineKnobs
from steptune.engine.plan_shared import can_share_prompts

RANKS = "train_ranks"

REPLICAS = "rollout_replicas"


def asks_for_ranks(job: JobSpec) -> bool:
    """Return whether the owner lets `train_ranks` move, or pins it: only then is it priced, which takes a while."""
    return job.devices.num_cores > 1 and (RANKS in job.knobs.allow or job.knobs.pin.get(RANKS, 1) != 1)


def asks_for_replicas(job: JobSpec) -> bool:
    """Return whether the owner lets `rollout_replicas` move, or pins it: only then is it priced, with processes."""
    return job.devices.num_cores > 1 and (REPLICAS in job.knobs.allow or job.knobs.pin.get(REPLICAS, 1) != 1)


def replica_numbers(job: JobSpec) -> tuple[int, ...]:
    """Return the numbers of rollout replicas worth trying: powers of two that cores and prompts allow."""
    most = min(job.devices.num_cores, job.algorithm.prompts_per_step, MAX_REPLICAS)
    return tuple(num for num in (1, 2, 4, 8) if num <= most)


def check_knobs(knobs: EngineKnobs, algorithm: AlgorithmSpec, model: ModelSpec) -> None:
    """Refuse knobs that do not fit.

    Raises:
        JobError: several updates per rollout batch without a separate old-log-prob pass, `offload` without
            `recompute`, a shared prefix with recurrent layers, an alias of what is elsewhere or of another number
            format, `compile` without a compiler or with `offload`, or what the foreign rollout engine cannot do.
    """
    check_alias(knobs)
    if knobs.compile:
        check_compile(knobs)
    if knobs.rollout_engine != "embedded":
        check_foreign(knobs, model)
    if algorithm.num_updates > 1 and knobs.logprob_batch_tokens is None:
        raise JobError(
            explain(
                "`logprob_batch_tokens` must be set when `algorithm.num_updates` is above 1",
                got=None,
                allowed="a positive number of tokens",
                hint=f"set it to `micro_batch_tokens` ({knobs.micro_batch_tokens}), or use one update",
            )
        )
    if knobs.offload and not knobs.recompute:
        raise JobError(
            explain(
                "`offload` moves what `recompute` keeps",
                got="`offload` without `recompute`",
                allowed="both, or neither",
                hint="set `recompute` too",
            )
        )
    if knobs.layout == "shared_prefix" and not can_share_prompts(model):
        raise JobError(
            explain(
                "`layout` does not fit the model: a recurrent layer's state cannot fork in the middle of a sequence",
                got="shared_prefix with a hybrid model",
                allowed="padded, sorted or packed",
                hint="use packed",
            )
        )


def check_compile(knobs: EngineKnobs) -> None:
    """Refuse `compile` where it cannot work.

    Raises:
        JobError: no C++ compiler, or offloaded inputs, whose layers run a first time without gradients: other graphs,
            which would be compiled in the middle of a step, when the first micro-batch is large enough to be offloaded.
    """
    check_compiler()
    if knobs.offload:
        raise JobError(
            explain(
                "`compile` does not go with `offload`: an offloaded layer's two runs are two graphs, made in a step",
                got="both",
                allowed="one of them",
                hint="leave `offload` out, which frees nothing on a CPU",
            )
        )


def check_alias(knobs: EngineKnobs) -> None:
    """Refuse to share the trainer's tensors where the rollout cannot read them.

    Raises:
        JobError: another process, or another number format than the trainer's.
    """
    if knobs.handover != "alias":
        return
    if knobs.schedule != "sync" or knobs.rollout_dtype != "fp32":
        raise JobError(
            explain(
                "handover `alias` shares the trainer's fp32 tensors inside its process",
                got=f"schedule `{knobs.schedule}`, rollout_dtype `{knobs.rollout_dtype}`",
                allowed="schedule `sync` and rollout_dtype `fp32`",
                hint="use handover `copy`",
            )
        )


def check_foreign(knobs: EngineKnobs, model: ModelSpec) -> None:
    """Refuse what vLLM's server does not do here; what it always does must be said.

    Raises:
        JobError: lists every knob that would not be true, or the model's family.
    """
    needed = {
        "schedule": "sync",
        "rollout_replicas": 1,
        "handover": "file",
        "compact_finished": True,
        "admit_order": "arrival",
        "reuse_prefixes": False,
        "router_replay": False,
    }
    wrong = [f"{name}={value}" for name in needed if (value := getattr(knobs, name)) != needed[name]]
    wrong += ["rollout_dtype=int8"] if knobs.rollout_dtype == "int8" else []
    if wrong:
        raise JobError(
            explain(
                f"rollout_engine `{knobs.rollout_engine}` does not fit the other knobs",
                got=", ".join(wrong),
                allowed=", ".join((*(f"{name}={needed[name]}" for name in needed), "rollout_dtype=fp32 or bf16")),
                hint="pin these too, or use rollout_engine `embedded`",
            )
        )
    if not isinstance(model, DenseModel):
        raise JobError(
            explain(
                f"rollout_engine `{knobs.rollout_engine}` was held against dense models only",
                got=type(model).__name__,
                allowed="DenseModel",
                hint="use rollout_engine `embedded`",
            )
        )
