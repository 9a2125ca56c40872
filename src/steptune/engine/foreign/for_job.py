"""vLLM's server for a job: what the job and its knobs say, as the server's settings."""

from pathlib import Path

from steptune.core.job import JobSpec
from steptune.engine.foreign.settings import VllmSettings, find_python
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.knobs import EngineKnobs
from steptune.envs.vocabulary import vocabulary_of

PROMPT_ROOM = 256
"""Tokens kept for a prompt; the longest arithmetic problem has about 60."""


def vllm_engine(job: JobSpec, knobs: EngineKnobs, folder: Path) -> VllmEngine:
    """Return the engine, not started; weights, log and the server's home go into ``folder``.

    Raises:
        JobError: there is no environment with vLLM, or its kernels cannot do the model's heads.
    """
    vocabulary = vocabulary_of(job)
    assert knobs.rollout_dtype != "int8", "refused by `check_foreign`"
    settings = VllmSettings(
        python=find_python(),
        dtype=knobs.rollout_dtype,
        max_num_seqs=knobs.rollout_concurrency or job.algorithm.rollouts_per_step,
        max_model_len=PROMPT_ROOM + job.algorithm.max_completion_len,
        prefix_caching=knobs.share_prefill,
        num_threads=knobs.rollout_threads,
    )
    return VllmEngine(
        job.model,
        settings,
        vocab_size=vocabulary.size,
        pad_id=vocabulary.pad_id,
        eos_id=vocabulary.eos_id,
        other_eos_ids=vocabulary.other_eos_ids,
        temperature=job.algorithm.temperature,
        folder=folder,
    )
