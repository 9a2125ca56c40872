"""The engine's knobs as the tuner sees them. `engine/knobs.py` has the same fields (a test compares).

`head_tile_tokens` has one value worth trying: tiles save memory, at the price of the head's product once more, and
the arithmetic vocabulary's logits are smaller than one layer's activations. It is there for the owner to pin, as is
`router_replay`, which closes a gap and costs time. `train_ranks` and `rollout_replicas` move only where `knobs.allow`
names them: what several processes on one memory bus cost has to be measured first, which takes as long as many trials.
"""

from steptune.core.job import JobSpec
from steptune.core.knob import Effect, KnobSpec, KnobValue, Restart
from steptune.core.model import ExpertFields
from steptune.core.phase import Role
from steptune.engine.compiler import asks_for_compile
from steptune.engine.knob_checks import asks_for_ranks, asks_for_replicas, replica_numbers
from steptune.engine.knobs import rollout_formats
from steptune.engine.plan_shared import can_share_prompts
from steptune.engine.quota.split import splits

MICRO_BATCH_TOKENS = (1024, 4096, 8192)
"""Micro-batch sizes worth trying, in positions: below 1,024 the per-call overhead rules, above 8,192 the caches."""

DISPATCHES = ("where", "sort", "grouped")
"""Every way of `engine.moe_dispatch`."""

MOVED_IF = "rollout_cores"
"""The knob that moves only where `knobs.allow` names it: a quota needs rights or a controller beside every process,
and its nine values would be multiplied with every other knob's."""

AGE_MOVED_IF = "max_lag"
"""The knob that moves, and lets `schedule` be `async`, only where `knobs.allow` or `knobs.pin` names it: the forecast
cannot tell the stream from one step ahead (both take the longer side's time), so neither is worth a trial unasked."""

CARRY_MOVED_IF = "partial_rollout"
"""The knob that moves, and brings `max_lag` along, only where `knobs.allow` or `knobs.pin` names it: the forecast knows
neither what the tail of a step saves nor what going on costs, so it claims nothing."""

ORDER_MOVED_IF = "admit_order"
"""The knob that moves only where `knobs.allow` names it: the forecast knows how long rows were, not how well that could
have been foreseen, so it claims nothing."""

ENGINE_IF = "rollout_engine"
"""The knob that takes `vllm` only where `knobs.pin` names it: it needs an environment of its own, and `conflicts` keeps
the tuner off it, whose forecast measures this engine."""

LAYOUTS = ("padded", "sorted", "packed", "shared_prefix")
"""Every layout of `engine.plan`."""


def knob_specs(job: JobSpec) -> tuple[KnobSpec, ...]:
    """Return every knob with the values that make sense for ``job`` and its devices."""
    threads = tuple(range(1, job.devices.num_cores + 1))
    rows = job.algorithm.rollouts_per_step
    waves: tuple[KnobValue, ...] = (None, max(1, rows // 4))
    passes: tuple[KnobValue, ...] = (None,) if job.algorithm.num_updates == 1 else (2048, 8192)
    dispatches: tuple[KnobValue, ...] = DISPATCHES if isinstance(job.model, ExpertFields) else ("grouped",)
    shares: tuple[KnobValue, ...] = (None, *splits(job.devices.num_cores)) if MOVED_IF in job.knobs.allow else (None,)
    schedules, ages, factors = _staleness(job)
    inflight: tuple[KnobValue, ...] = (False, True) if "async" in schedules else (False,)
    ranks: tuple[KnobValue, ...] = (1, 2) if asks_for_ranks(job) else (1,)
    replicas = replica_numbers(job) if asks_for_replicas(job) else (1,)
    routings: tuple[KnobValue, ...] = ("round_robin", "least_tokens") if len(replicas) > 1 else ("round_robin",)
    compiles: tuple[KnobValue, ...] = (False, True) if asks_for_compile(job) else (False,)
    orders: tuple[KnobValue, ...] = ("arrival", "longest_first") if ORDER_MOVED_IF in job.knobs.allow else ("arrival",)
    layouts = tuple(name for name in LAYOUTS if name != "shared_prefix" or can_share_prompts(job.model))
    rollout, trainer, controller = Role.ROLLOUT, Role.TRAINER, Role.CONTROLLER
    none, precision, staleness = Effect.NONE, Effect.PRECISION, Effect.STALENESS
    engines: tuple[KnobValue, ...] = ("embedded", "vllm") if ENGINE_IF in job.knobs.pin else ("embedded",)
    return (
        _knob("rollout_engine", rollout, engines, precision, "who generates: this engine, or vLLM's server"),
        _knob("rollout_concurrency", rollout, waves, none, "rows decoding at once (None: all)"),
        _knob("admit_order", rollout, orders, none, "who takes a free slot"),
        _knob("share_prefill", rollout, (False, True), none, "prefill each prompt once per group"),
        _knob("reuse_prefixes", rollout, (False,), none, "keep finished turns' caches for later ones"),
        _knob("compact_finished", rollout, (False, True), none, "finished rows leave the batch at once"),
        _knob("rollout_dtype", rollout, rollout_formats(job), precision, "number format of the rollout"),
        _knob("rollout_threads", rollout, threads, none, "threads of the rollout"),
        _knob("rollout_replicas", rollout, replicas, none, "engines that share the groups of a step"),
        _knob("rollout_routing", rollout, routings, none, "which replica makes a group"),
        _knob("train_threads", trainer, threads, none, "threads of the trainer"),
        _knob("train_ranks", trainer, ranks, none, "processes that share an update's rows and add up their gradients"),
        _knob("train_dtype", trainer, ("fp32", "bf16"), precision, "number format of the training forward"),
        _knob("layout", trainer, layouts, none, "how rows become micro-batches"),
        _knob("micro_batch_tokens", trainer, MICRO_BATCH_TOKENS, none, "positions per micro-batch"),
        _knob("moe_dispatch", trainer, dispatches, none, "how tokens reach their experts"),
        _knob("router_replay", trainer, (False,), precision, "the trainer takes the rollout's experts"),
        _knob("compile", trainer, compiles, none, "the trainer's layers run compiled"),
        _knob("recompute", trainer, (True, False), none, "recompute activations in backward"),
        _knob("offload", trainer, (False,), none, "inputs of recomputed layers wait in the host's memory"),
        _knob(
            "head_tile_tokens", trainer, (None,), none, "completion positions whose logits exist at once (None: all)"
        ),
        _knob("logprob_batch_tokens", trainer, passes, none, "separate old-log-prob pass (None: no pass)"),
        _knob(
            "rollout_cores", rollout, shares, none, "CPU quota of the rollout, the trainer gets the rest (None: none)"
        ),
        _knob("schedule", controller, schedules, staleness, "overlap rollout and training"),
        _knob("max_lag", controller, ages, staleness, "oldest trained token of a run with a queue, in updates"),
        _knob("inflight_update", rollout, inflight, staleness, "new weights between two tokens"),
        _knob(
            "partial_rollout",
            controller,
            factors,
            staleness,
            "groups in the making over a step's; unfinished ones go on",
        ),
        _knob("handover", trainer, ("copy", "alias", "file"), none, "how weights reach the rollout"),
        _knob("correction", trainer, ("none", "tis"), staleness, "importance-sampling correction"),
    )


def _staleness(job: JobSpec) -> tuple[tuple[KnobValue, ...], tuple[KnobValue, ...], tuple[KnobValue, ...]]:
    """Return the values of `schedule`, `max_lag` and `partial_rollout`."""
    named, allowed_lags = {*job.knobs.allow, *job.knobs.pin}, _lags(job)
    ages = allowed_lags if AGE_MOVED_IF in named else ()
    factors: tuple[KnobValue, ...] = (None, 1.25, 1.5) if CARRY_MOVED_IF in named and allowed_lags else (None,)
    schedules: tuple[KnobValue, ...] = ("sync", "one_step_off", *(("async",) if ages else ()))
    return schedules, (None, *(allowed_lags if ages or len(factors) > 1 else ())), factors


def _lags(job: JobSpec) -> tuple[int, ...]:
    """Return the ages worth trying that the owner allows: those of one, two and four steps, in updates."""
    lags = (job.algorithm.num_updates * num_steps for num_steps in (1, 2, 4))
    return tuple(lag for lag in lags if lag <= job.limits.max_staleness)


def _knob(name: str, side: Role, values: tuple[KnobValue, ...], effect: Effect, what: str) -> KnobSpec:
    return KnobSpec(name=name, side=side, values=values, effect=effect, restart=Restart.RELAUNCH, what=what)
