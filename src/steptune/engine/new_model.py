"""The job's model with fresh weights: what SFT starts from, and what every measurement that needs no weights takes."""

import torch

from steptune.core.job import JobSpec
from steptune.engine.model import Transformer, build_model
from steptune.envs.vocabulary import vocabulary_of


def new_model(job: JobSpec) -> Transformer:
    """Return the job's model, freshly initialised from `sft.seed`, whatever weights the job begins with."""
    return build_model(job.model, vocabulary_of(job).size, job.sft.seed)


def shapes_of(job: JobSpec) -> dict[str, torch.Size]:
    """Return the name and shape of every weight, without making one."""
    with torch.device("meta"):
        model = Transformer(job.model, vocabulary_of(job).size)
    return {name: tensor.shape for name, tensor in model.state_dict().items()}
