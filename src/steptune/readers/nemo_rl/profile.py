"""Steps of a NeMo RL log become a Profile."""

from collections.abc import Sequence
from typing import Literal

from steptune.core.estimate import Estimate, Source
from steptune.core.paste import Note
from steptune.core.phase import Role
from steptune.core.profile import Health, Profile, RoleProfile, SummaryLengths, WorkSignature
from steptune.readers.average import KeptSteps, keep_steps
from steptune.readers.facts import JobFacts
from steptune.readers.missing import with_missing
from steptune.readers.nemo_rl.timers import ASYNC_TIMERS, STEP_KEY, SYNC_TIMERS
from steptune.readers.plausibility import notes_on, without_impossible_timers
from steptune.readers.reading import LogReading
from steptune.readers.step import StepRecord
from steptune.readers.timers import serial_roles
from steptune.readers.untimed import outside_phases, untimed_reading
from steptune.readers.values import whole_count

_ASYNC_KEYS = ("exposed_generation", "Avg Trajectory Age")
_WHOLE_TOLERANCE = 0.02
"""Largest distance of a device count from a whole number: the two throughputs have two decimals each."""


def to_reading(records: Sequence[StepRecord], facts: JobFacts) -> LogReading | None:
    """Return the profile and its notes, or the phases alone when no step has a total step time."""
    is_async = any(r.value(key) is not None or r.has_broken(key) for r in records for key in _ASYNC_KEYS)
    timers = ASYNC_TIMERS if is_async else SYNC_TIMERS
    possible = [without_impossible_timers(record, step_key=STEP_KEY, timers=timers) for record in records]
    kept = keep_steps(possible, step_key=STEP_KEY, timer_keys=[timer.key for timer in timers])
    if kept is None:
        return untimed_reading(records, timers)
    roles = (Role.TRAINER, Role.CONTROLLER) if is_async else (Role.TRAINER, Role.ROLLOUT, Role.CONTROLLER)
    booked = tuple(_with_devices(role, kept, facts) for role in serial_roles(kept, timers, roles))
    profile = with_missing(_profile(kept, facts, booked, "async" if is_async else "sync"))
    notes = notes_on(kept, profile, timer_prefix="", known=())
    outside = outside_phases(records, possible, timers)
    return LogReading(profile=profile, phases=outside, notes=(*notes, *_own_notes(kept, is_async=is_async)))


def _profile(
    kept: KeptSteps, facts: JobFacts, roles: tuple[RoleProfile, ...], schedule: Literal["sync", "async"]
) -> Profile:
    return Profile(
        framework="nemo_rl",
        framework_version=facts.version,
        schedule=schedule,
        placement=_placement(kept, facts),
        settings=dict(facts.settings),
        work=WorkSignature(
            prompts_per_step=facts.positive_int("grpo.num_prompts_per_step"),
            group_size=facts.positive_int("grpo.num_generations_per_prompt"),
            max_completion_len=facts.positive_int("policy.generation.max_new_tokens"),
        ),
        step_time=kept.step_time,
        roles=roles,
        lengths=SummaryLengths(
            prompt_mean=kept.gauge_value("mean_prompt_length"),
            completion_mean=kept.gauge_value("Mean Generation Length"),
            completion_max=max(kept.finite("max_gen_tokens_per_sample"), default=None),
            clipped_frac=kept.gauge_value("truncation_rate"),
        ),
        tokens_per_step=_tokens_per_step(kept),
        tokens_per_device_s=kept.gauge("E2E (Tokens/sec/gpu)", unit="tokens/s", note="per GPU of the whole cluster"),
        staleness_mean=kept.gauge_value("Avg Trajectory Age"),
        health=Health(
            reward_mean=kept.gauge_value("Avg Reward", "Avg Total Reward"),
            truncated_frac=kept.gauge_value("truncation_rate"),
            entropy=kept.gauge_value("approx_entropy"),
            has_nan=kept.has_nan(),
        ),
        num_steps=len(kept.steps),
        num_warmup=kept.num_warmup,
    )


def _tokens_per_step(kept: KeptSteps) -> Estimate | None:
    per_s = kept.gauge("E2E (Tokens/sec)", unit="tokens/s")
    if per_s is None:
        return None
    value = per_s.value * kept.step_time.value
    note = "printed tokens per second x step time; NeMo RL counts prompts too"
    return Estimate(value=value, unit="tokens", source=Source.DERIVED, n=per_s.n, note=note)


def _devices(kept: KeptSteps, group: str, rate: str) -> float | None:
    """Devices of a group: its printed throughput over the same throughput per GPU."""
    whole, per_gpu = kept.gauge_value(f"{group} ({rate})"), kept.gauge_value(f"{group} ({rate}/gpu)")
    if not whole or not per_gpu:
        return None
    return whole_count(whole / per_gpu, tolerance=_WHOLE_TOLERANCE)


def _trainer_devices(kept: KeptSteps) -> float | None:
    return _devices(kept, "Training Worker Group", "Tokens/sec")


def _rollout_devices(kept: KeptSteps) -> float | None:
    return _devices(kept, "Generation Worker Group", "Tokens/sec")


def _with_devices(role: RoleProfile, kept: KeptSteps, facts: JobFacts) -> RoleProfile:
    if role.role is Role.TRAINER:
        return role.model_copy(update={"num_devices": _trainer_devices(kept)})
    if role.role is Role.ROLLOUT:
        devices = _rollout_devices(kept)
        tensor_parallel = facts.positive_int("policy.generation.vllm_cfg.tensor_parallel_size")
        divides = devices is not None and tensor_parallel is not None and devices % tensor_parallel == 0
        replicas = int(devices // tensor_parallel) if divides and devices and tensor_parallel else None
        return role.model_copy(update={"num_devices": devices, "num_replicas": replicas})
    return role


def _placement(kept: KeptSteps, facts: JobFacts) -> Literal["colocated", "disaggregated"] | None:
    """As configured, or by whether both groups hold all the devices or share them out."""
    stated = facts.settings.get("policy.generation.colocated.enabled")
    if isinstance(stated, bool):
        return "colocated" if stated else "disaggregated"
    total, trainer, rollout = _devices(kept, "E2E", "Tokens/sec"), _trainer_devices(kept), _rollout_devices(kept)
    if total is None or trainer is None or rollout is None:
        return None
    if trainer == rollout == total:
        return "colocated"
    return "disaggregated" if trainer + rollout == total else None


def _own_notes(kept: KeptSteps, *, is_async: bool) -> list[Note]:
    notes: list[Note] = []
    if is_async:
        notes.append(Note(text="`exposed_generation` is the trainer's wait: rollout capacity is not in this log"))
    if any("policy_and_reference_logprobs" in step.readings for step in kept.steps):
        notes.append(Note(text="`policy_and_reference_logprobs` holds old and reference log-probs together"))
    if any(step.is_cut for step in kept.steps):
        notes.append(Note(text="the log ends inside the list of timers: shorter ones may be missing"))
    return notes
