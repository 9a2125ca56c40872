"""A public row read as a job: what it states, and what is assumed where it is silent.

The surprise: silence is filled from the *measured* row of the same job first, so that what neither states cancels in a
ratio; only then by a default. `Job.assumed` names what was filled by defaults.
"""

import math
import re
from dataclasses import dataclass
from typing import Final

from steptune.core.errors import ModelError
from steptune.forecast.curve import ForecastError
from steptune.hardware.devices import TERA, Device, find_device
from steptune.published.public_run import PublicRun
from steptune.published.runs import billions_in
from steptune.shapes.cost import training_flop_per_token
from steptune.shapes.count import parameters
from steptune.shapes.registry import find_model, models
from steptune.shapes.shape import ModelShape

MEAN_OF_LONGEST: Final = 0.4
"""Mean answer over the longest allowed, where no mean is stated: median of five jobs on side `fit` that state both."""

USUAL_REACHED: Final = 0.25
"""Part of the peak that training reaches, recomputation not counted: trainers of side `fit` print 0.13 to 0.37."""

LEAST_OF_LONGEST: Final = 0.03
TOLD_WEIGHT: Final = 0.8
"""Weight of the mean that a training time tells (log error about 0.4) against the usual part (about 0.8)."""

PROMPT_TOKENS: Final = 256
"""Prompt, where none is stated: problems of mathematics."""

LONGEST_TOKENS: Final = 4096
SAMPLES: Final = 1024
DEVICES: Final = 8
PLAIN_DEVICE: Final = "H100"
"""What is assumed of a job that states nothing: the most usual values of the table's columns."""

PLAIN_MODEL: Final = "Qwen2.5-7B"
ENGINE_SHARE: Final = 0.6
"""Share of the memory an engine takes where none is stated (NeMo RL's and verl's examples: 0.5 to 0.6)."""

MICRO_TOKENS: Final = 16384
TRAIN_SHARE: Final = 0.5
"""Part of the devices that train where sides are apart and no split is stated."""

_THOUSANDS = re.compile(r"dynamic (\d+)(k?)")
_SPLIT_ENGINES = "PD-disaggregated"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    """One configuration. Example: 8,192 samples of 2,000 tokens on 128 shared H20.

    Compared by identity, so that what depends on the job alone is worked out once.
    """

    shape: ModelShape
    device: Device
    framework: str
    num_train: float
    num_rollout: float
    is_shared: bool
    """Whether trainer and engines take turns on the same devices."""
    has_split_engines: bool
    """Prefill and decode on engines of their own."""
    lends: bool
    """Whether trainer devices help to generate while they wait."""
    is_async: bool
    is_steady: bool
    """Whether an engine never drains: samples live on across updates."""
    stale_frac: float | None
    """Part of a batch that may be stale; None where the bound is in whole steps."""
    batches_ahead: float
    """Batches in flight at once in a steady state: the bound on lag."""
    samples: float
    longest: float
    mean_new: float
    prompt: float
    num_updates: float
    batches_at_once: float
    """Mini-batches that reach the trainer together and are balanced over its ranks."""
    micro_tokens: float
    tp: float
    pp: float
    cp: float
    ep: float
    dp: float
    rollout_tp: float
    rollout_ep: float
    engine_share: float
    is_packed: bool
    recomputes: bool
    offloads: bool
    has_loop_experts: bool
    """Whether experts train one after the other: modules of `transformers` under FSDP."""
    fp8_rollout: bool
    fp8_train: bool
    is_eager: bool
    num_passes: float
    """Log-probability passes beside training: old policy, reference."""
    assumed: tuple[str, ...]

    @property
    def tokens(self) -> float:
        """Tokens a step trains on."""
        return self.samples * (self.mean_new + self.prompt)


class CannotReadError(ForecastError):
    """A row that cannot be forecast; the message is the reason, counted by the arm."""


def read(run: PublicRun, like: PublicRun | None) -> Job:
    """Return a row as a job, silence filled from ``like``, the measured row of the same job.

    Raises:
        CannotReadError: neither its model nor its devices can be known.
    """
    reader = _Reader(run, like)
    shape, device = reader.shape(), reader.device()
    num_train, num_rollout, is_shared = reader.places()
    lag, settings = run.async_lag or "0", reader.setting
    longest, mean_new, prompt = reader.lengths()
    samples = reader.samples()
    tp, pp, cp = (reader.number(f"train_{name}") or 1.0 for name in ("tp", "pp", "cp"))
    ulysses = reader.setting("ulysses_sp") or reader.setting("sp") or 1.0
    split = cp * (ulysses if isinstance(ulysses, int | float) else 1.0)
    dp = max(1.0, num_train / (tp * pp * split))
    steady = bool(run.other_settings.get("partial_rollout") or run.other_settings.get("in_flight_weight_updates"))
    return Job(
        shape=shape,
        device=device,
        framework=run.framework.lower(),
        num_train=num_train,
        num_rollout=num_rollout,
        is_shared=is_shared,
        has_split_engines=_SPLIT_ENGINES in (run.placement or ""),
        lends=run.placement == "hybrid-switch",
        is_async=lag != "0",
        is_steady=lag != "0" and (steady or _never_drains(lag)),
        stale_frac=_stale_frac(lag),
        batches_ahead=_batches_ahead(lag),
        samples=samples,
        longest=longest,
        mean_new=mean_new,
        prompt=prompt,
        num_updates=reader.updates(samples),
        batches_at_once=_positive(run.other_settings.get("require_batches")) or 1.0,
        micro_tokens=reader.micro_tokens(mean_new + prompt) * split,
        tp=tp,
        pp=pp,
        cp=split,
        ep=reader.number("train_ep") or 1.0,
        dp=dp,
        rollout_tp=reader.rollout_tp(num_rollout, shape, device),
        rollout_ep=reader.number("rollout_ep") or 1.0,
        engine_share=reader.fraction(("vllm_gpu_memory_utilization", "gpu_memory_utilization", "sglang_mem_fraction")),
        is_packed=(run.packing or (like.packing if like else None)) != "off",
        recomputes=(run.recompute or (like.recompute if like else None)) in ("full", "Offload", None),
        offloads=bool(settings("param_optimizer_offload") or settings("optimizer_cpu_offload") or settings("offload")),
        has_loop_experts=reader.has_loop_experts(),
        fp8_rollout="fp8" in (run.precision_rollout or ""),
        fp8_train="fp8" in (run.precision_train or ""),
        is_eager=bool(settings("enforce_eager")) or settings("vllm_cudagraph_mode") == "eager",
        num_passes=reader.passes(),
        assumed=tuple(sorted(reader.assumed)),
    )


class _Reader:
    def __init__(self, run: PublicRun, like: PublicRun | None) -> None:
        self.run, self.like, self.assumed = run, like, set[str]()

    def number(self, name: str) -> float | None:
        value = getattr(self.run, name)
        return value if value is not None or self.like is None else getattr(self.like, name)

    def setting(self, name: str) -> object:
        if name in self.run.other_settings or self.like is None:
            return self.run.other_settings.get(name)
        return self.like.other_settings.get(name)

    def fraction(self, names: tuple[str, ...]) -> float:
        for name in names:
            value = self.setting(name)
            if isinstance(value, int | float) and 0 < value <= 1:
                return float(value)
        return ENGINE_SHARE

    def shape(self) -> ModelShape:
        name = self.run.model or (self.like.model if self.like else None)
        if name is None:
            if self.number("n_gpus") is None:
                raise CannotReadError("neither model nor devices are stated")
            self.assumed.add("model")
            name = PLAIN_MODEL
        found = find_model(name)
        if found is not None:
            return found.shape()
        billions = billions_in(name)
        if billions is None:
            if self.like is None and self.number("n_gpus") is None:
                raise CannotReadError("the model is not known")
            billions = 7.0
        self.assumed.add("model")
        return nearest_shape(billions)

    def device(self) -> Device:
        own = self.run.gpu_type or self.run.hardware
        name = own or (self.like and (self.like.gpu_type or self.like.hardware)) or PLAIN_DEVICE
        device = find_device(name)
        if device is None or device.bf16_peak_tflops is None or device.hbm_gbyte_per_s is None:
            if self.like is not None and (self.like.gpu_type or self.like.hardware) == own:
                device = find_device(PLAIN_DEVICE)  # the same on both sides: its facts cancel
            else:
                raise CannotReadError("the device's facts are not known")
        if own is None:
            self.assumed.add("device")
        assert device is not None
        return device

    def places(self) -> tuple[float, float, bool]:
        """Return devices that train, devices that generate, and whether they are the same."""
        total = self._total()
        placement = self.run.placement or ("disaggregated" if self.run.is_async else "colocated")
        if placement.startswith("colocated"):
            return total, total, True
        train, rollout = self.run.gpus_train, self.run.gpus_rollout
        if train is None and rollout is None:
            self.assumed.add("split")
            train = total * TRAIN_SHARE
        train = train if train is not None else total - (rollout or 0.0)
        rollout = rollout if rollout is not None else total - train
        return max(train, 1.0), max(rollout, 1.0), False

    def _total(self) -> float:
        total = self.number("n_gpus")
        if total is not None:
            return total
        for run in (self.run, self.like):
            if run is not None and run.placement == "disaggregated" and run.gpus_train and run.gpus_rollout:
                return run.gpus_train + run.gpus_rollout
        self.assumed.add("devices")
        return DEVICES

    def lengths(self) -> tuple[float, float, float]:
        """Return the longest answer, the mean answer and the prompt, in tokens."""
        longest = self.number("max_response_len")
        mean = self.number("mean_response_len")
        if longest is None:
            self.assumed.add("lengths")
            longest = 4.0 * mean if mean is not None else LONGEST_TOKENS
        if mean is None:
            self.assumed.add("lengths")
            mean = self._mean_from_training(longest) or MEAN_OF_LONGEST * longest
        total = self.number("mean_total_len")
        prompt = total - mean if total is not None and total > mean else PROMPT_TOKENS
        return max(longest, mean), mean, prompt

    def _mean_from_training(self, longest: float) -> float | None:
        """Return the mean answer that the measured training time tells, drawn towards the usual part of the longest."""
        timed = self.run if self.run.train_s else self.like
        if timed is None or not timed.train_s:
            return None
        devices = timed.gpus_train or self._total()
        device, shape = self.device(), self.shape()
        assert device.bf16_peak_tflops is not None, device.name
        flop = timed.train_s * devices * device.bf16_peak_tflops * TERA * USUAL_REACHED
        per_sample = flop / training_flop_per_token(shape, PROMPT_TOKENS) / self.samples()
        told = min(max(per_sample - PROMPT_TOKENS, LEAST_OF_LONGEST * longest), longest)
        return math.exp(TOLD_WEIGHT * math.log(told) + (1 - TOLD_WEIGHT) * math.log(MEAN_OF_LONGEST * longest))

    def samples(self) -> float:
        run, like = self.run, self.like
        samples = run.samples_per_step or (like.samples_per_step if like else None)
        if samples is not None:
            return samples
        stated = self.setting("batch_size_samples")
        if isinstance(stated, int | float):
            return float(stated)
        self.assumed.add("batch")
        prompts, group = self.number("prompts_per_step"), self.number("group_size")
        return prompts * 8 if prompts is not None else group * 128 if group is not None else SAMPLES

    def updates(self, samples: float) -> float:
        stated = self.setting("optim_steps_per_step")
        if isinstance(stated, int | float) and stated > 0:
            return float(stated)
        prompts = self.number("prompts_per_step")
        for name in ("ppo_mini_batch_prompts", "mini_batch"):
            mini = self.setting(name)
            if isinstance(mini, int | float) and mini > 0 and prompts is not None:
                return max(1.0, prompts / mini)
        return 4.0 if samples > 512 else 1.0

    def micro_tokens(self, sequence: float) -> float:
        text = self.run.micro_batch or (self.like.micro_batch if self.like else None) or ""
        dynamic = _THOUSANDS.match(text)
        if dynamic is not None:
            return float(dynamic[1]) * (1000 if dynamic[2] else 1)
        budget = self.setting("ppo_max_token_len_per_gpu")
        if isinstance(budget, int | float):
            return float(budget)
        packed = self.setting("pack_tokens")
        if isinstance(packed, int | float) and text == "1":
            return float(packed)
        first = text.split("/")[0]
        return sequence * float(first) if first.isdecimal() else MICRO_TOKENS

    def rollout_tp(self, num_rollout: float, shape: ModelShape, device: Device) -> float:
        stated = self.number("rollout_tp")
        if stated is None:
            stated, need = 1.0, 2.0 * parameters(shape).total
            while stated < num_rollout and need / stated > 0.5 * device.memory_gib * 1e9:
                stated *= 2
        return min(stated, num_rollout)

    def has_loop_experts(self) -> bool:
        own = str(self.setting("train_backend") or self.setting("backend") or "").lower()
        return self.run.framework.lower().startswith(("verl", "easyr1")) and own.startswith("fsdp")

    def passes(self) -> float:
        measured_ref = self.like is not None and self.like.ref_s is not None
        kl = self.setting("kl_penalty")
        return 2.0 if measured_ref or (isinstance(kl, int | float) and kl > 0) else 1.0


def nearest_shape(billions: float) -> ModelShape:
    """Return the known dense shape whose published size is nearest.

    Raises:
        ModelError: the table is empty.
    """
    sized = [(row.published_b, row) for row in models() if row.published_b and row.published_active_b is None]
    if not sized:
        raise ModelError("no model of the table states its size")
    return min(sized, key=lambda pair: abs(pair[0] - billions))[1].shape()


def tail_tokens(job: Job) -> float:
    """Return the longest of a step's answers: at the limit, or what an exponential of that mean reaches in so many."""
    return max(job.mean_new, min(job.longest, job.mean_new * math.log(max(math.e, job.samples))))


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _never_drains(lag: str) -> bool:
    """Return whether a lag alone says so: a bound in words, unless it streams fresh samples, or of several steps."""
    return int(lag) > 1 if lag.isdecimal() else "stream" not in lag


def _batches_ahead(lag: str) -> float:
    """Return the batches in flight: a lag in whole steps is kept full, a bound in words rarely (verl's trainer v1)."""
    stale = _stale_frac(lag)
    return 1 + stale if stale is not None else max(1.0, float(lag)) if lag.isdecimal() else 1.0


def _stale_frac(lag: str) -> float | None:
    found = re.search(r"staleness (\d*\.?\d+)", lag)
    return None if found is None else float(found[1])
