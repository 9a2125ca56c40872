"""Job files as the commands that run jobs read them: a model folder is looked at, and must fit what is asked of it."""

from collections.abc import Sequence
from pathlib import Path

from steptune.adapters.embedded.framework import EmbeddedFramework, longest_prompt
from steptune.cli.frameworks import cache_dir, need_torch
from steptune.cli.streams import say
from steptune.core.errors import JobError, explain
from steptune.core.job import JobSpec
from steptune.core.model import ModelSpec
from steptune.core.pretrained import HfModel
from steptune.store.job_file import load_job


def read_job(path: Path, overrides: Sequence[str] = ()) -> JobSpec:
    """Return the job of the file, its model folder resolved; see `store.job_file.load_job`.

    Raises:
        JobError: something is wrong with the file, or its rows are longer than the model's context.
        ModelError: the model folder cannot be used.
    """
    job = load_job(path, overrides, find_model=_find_model)
    _check_context(job)
    return job


def _find_model(wanted: HfModel) -> ModelSpec:
    need_torch()
    return EmbeddedFramework(cache_dir=cache_dir(), say=say).find_model(wanted)


def _check_context(job: JobSpec) -> None:
    context_len = None if job.model.pretrained is None else job.model.pretrained.context_len
    if context_len is None:
        return
    longest, limit = longest_prompt(job), job.algorithm.max_completion_len
    if longest + limit > context_len:
        raise JobError(
            explain(
                "prompt and `algorithm.max_completion_len` are longer than the model's context",
                got=f"{longest} + {limit} tokens",
                allowed=f"{context_len} together",
                hint=f"use `algorithm.max_completion_len` = {context_len - longest}"
                if longest < context_len
                else "shorten `workload.prompt`",
            )
        )
