"""Supervised warm start: the policy RL begins with. Trained once, kept by content.

The cache key covers everything that decides the weights but the number of threads, which only moves rounding.
"""

import hashlib
import logging
import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import steptune
from steptune.core.errors import HealthError, explain
from steptune.core.job import JobSpec
from steptune.core.records import canonical_json
from steptune.engine.demonstrations import demonstrated_problems, demonstration_inputs
from steptune.engine.model import Transformer
from steptune.engine.new_model import new_model, shapes_of
from steptune.envs.vocabulary import vocabulary_of

Progress = Callable[[int, int, float], None]
"""Called after every step with (steps done, steps in all, smoothed loss in nats per token)."""

State = dict[str, Tensor]
"""A model's float32 `state_dict`."""

WARMUP_STEPS = 20
"""Steps of linear warm-up: AdamW's first steps are all noise."""

FINAL_LR_FRAC = 0.1
"""Learning rate at the end of the cosine, as a part of `sft.lr`."""

MAX_GRAD_NORM = 1.0
"""Gradients are clipped to this L2 norm."""

BETAS = (0.9, 0.95)
"""AdamW's usual betas for language models."""

SOURCES = (
    "engine/sft.py",
    "engine/demonstrations.py",
    "engine/context.py",
    "engine/model.py",
    "engine/new_model.py",
    "engine/models/*.py",
    "engine/moe.py",
    "engine/moe_dispatch.py",
    "engine/inputs.py",
    "engine/attention.py",
    "engine/recur.py",
    "engine/micro_batch.py",
    "engine/plan.py",
    "envs/*.py",
    "envs/math/*.py",
)
"""Files whose text decides the result."""

FOLDER_SOURCES = ("engine/hf/*.py",)
"""Further ones, of a job that begins with the weights of a folder."""

log = logging.getLogger(__name__)


def load_or_train(job: JobSpec, cache_dir: Path, progress: Progress | None = None) -> Path:
    """Return the file with the job's SFT start (a plain `state_dict`), training it if it is not there yet.

    A file that is damaged is reported and replaced; a reader sees the whole file or none.

    Raises:
        HealthError: the loss became NaN.
    """
    path = cache_dir / f"sft-{sft_key(job)}.pt"
    if path.exists():
        damage = find_damage(path, job)
        if damage is None:
            return path
        log.warning("SFT start %s is damaged (%s); training it again", path, damage)
    state = sft_train(job, progress)
    cache_dir.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)
    return path


def sft_key(job: JobSpec) -> str:
    """Return 16 hex digits over model, problems, SFT settings, torch version and source text."""
    digest = hashlib.sha256()
    workload = job.workload
    for part in (
        canonical_json(job.model),
        canonical_json(job.sft),
        f"{workload.kind} {workload.seed} {workload.levels} {workload.prompt}",
    ):
        digest.update(part.encode() + b"\0")
    digest.update(torch.__version__.encode())
    package = Path(steptune.__file__).parent
    sources = SOURCES if job.model.pretrained is None else (*SOURCES, *FOLDER_SOURCES)
    for path in sorted(path for pattern in sources for path in package.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def find_damage(path: Path, job: JobSpec) -> str | None:
    """Return what is wrong with a cached start, or None: checksums, names, shapes and finite numbers are checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is not None:
            return f"checksum of {broken}"
        state: State = torch.load(path, weights_only=True)
    except (OSError, zipfile.BadZipFile, RuntimeError, EOFError, KeyError) as error:
        return str(error)
    if {name: tensor.shape for name, tensor in state.items()} != shapes_of(job):
        return "names or shapes of another model"
    return None if all(bool(tensor.isfinite().all()) for tensor in state.values()) else "NaN or infinite weights"


def sft_train(job: JobSpec, progress: Progress | None = None) -> State:
    """Return the weights after `sft.num_steps` steps of AdamW on demonstrations, loss on completion tokens only.

    They begin fresh, or with the weights of the job's model folder; no step leaves those as they are.

    Raises:
        HealthError: loss or gradient became NaN or infinite.
        JobError: a demonstration is longer than the model's context.
        ModelError: the model folder has gone or changed.
    """
    model, num_steps = _first_model(job), job.sft.num_steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.sft.lr, betas=BETAS, weight_decay=0.0, fused=True)
    for step in range(num_steps):
        for group in optimizer.param_groups:
            group["lr"] = job.sft.lr * lr_frac(step, num_steps)
        loss, norm = _step(model, optimizer, job, step)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise HealthError(
                explain(
                    f"SFT diverged at step {step}",
                    got=f"loss {loss}, gradient norm {norm}",
                    allowed="a finite loss and a finite norm",
                    hint="lower `sft.lr`",
                )
            )
        if progress is not None:
            progress(step + 1, num_steps, loss)
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def lr_frac(step: int, num_steps: int) -> float:
    """Return the learning rate of ``step`` as a part of the peak: linear warm-up, then half a cosine."""
    warmup = min(1.0, (step + 1) / WARMUP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * step / max(1, num_steps)))
    return warmup * (FINAL_LR_FRAC + (1 - FINAL_LR_FRAC) * cosine)


def _step(model: Transformer, optimizer: torch.optim.Optimizer, job: JobSpec, step: int) -> tuple[float, float]:
    """Step; return the loss before it and the norm before clipping."""
    inputs = demonstration_inputs(demonstrated_problems(job, step), vocabulary_of(job))
    hidden_ND = model.hidden(inputs.tokens_N, inputs.positions_N, inputs.context)
    logits_CV = model.logits(hidden_ND[inputs.predict_C])
    loss = F.cross_entropy(logits_CV, inputs.target_C, label_smoothing=job.sft.label_smoothing)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach()), float(norm)


def _first_model(job: JobSpec) -> Transformer:
    model = new_model(job)
    if job.model.pretrained is not None:
        from steptune.engine.hf.find import load_found  # needs `safetensors`, which other jobs do not

        model.load_state_dict(load_found(job.model))
    return model
