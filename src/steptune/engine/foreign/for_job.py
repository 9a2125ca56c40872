"""vLLM's server for a job: what the job and its knobs say, as the server's settings."""

import logging
from pathlib import Path

from steptune.core.job import JobSpec
from steptune.engine.foreign.room import block_size_for, prompt_room, sampled_prompt_lengths, shared_tokens
from steptune.engine.foreign.settings import BLOCK_SIZES, VllmSettings, find_python, stall_s_of
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.knobs import EngineKnobs
from steptune.engine.new_model import shapes_of
from steptune.envs.vocabulary import vocabulary_of

log = logging.getLogger(__name__)


def settings_for(job: JobSpec, knobs: EngineKnobs, seed: int, python: Path) -> VllmSettings:
    """Return the server's settings: room for the job's own prompts, in blocks that its groups can share.

    Says so in the log where ``share_prefill`` shares nothing, because the prompts are shorter than every block.
    """
    assert knobs.rollout_dtype != "int8", "refused by `check_foreign`"
    lengths, context_len = sampled_prompt_lengths(job, seed), vocabulary_of(job).context_len
    num_tokens = prompt_room(lengths) + job.algorithm.max_completion_len
    settings = VllmSettings(
        python=python,
        dtype=knobs.rollout_dtype,
        max_num_seqs=knobs.rollout_concurrency or job.algorithm.rollouts_per_step,
        max_model_len=num_tokens if context_len is None else min(num_tokens, context_len),
        block_size=block_size_for(lengths) if knobs.share_prefill else BLOCK_SIZES[0],
        prefix_caching=knobs.share_prefill,
        num_threads=knobs.rollout_threads,
        stall_timeout_s=stall_s_of(sum(shape.numel() for shape in shapes_of(job).values())),
    )
    if knobs.share_prefill and not shared_tokens(lengths, settings.block_size):
        log.warning(
            "`share_prefill` was asked for and shares nothing: prompts of at most %d tokens are shorter than a block",
            max(lengths),
        )
    return settings


def vllm_engine(job: JobSpec, knobs: EngineKnobs, seed: int, folder: Path) -> VllmEngine:
    """Return the engine, not started; weights, log and the server's home go into ``folder``.

    Raises:
        JobError: there is no environment with vLLM, or its kernels cannot do the model's heads.
    """
    vocabulary = vocabulary_of(job)
    return VllmEngine(
        job.model,
        settings_for(job, knobs, seed, find_python()),
        vocab_size=vocabulary.size,
        pad_id=vocabulary.pad_id,
        eos_id=vocabulary.eos_id,
        other_eos_ids=vocabulary.other_eos_ids,
        temperature=job.algorithm.temperature,
        folder=folder,
    )
