"""A small model and a scored batch with everything the loss looks at, shared by the trainer's tests."""

import torch

from steptune.core.job import AlgorithmSpec, DenseModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer, build_model
from steptune.engine.trainer import Trainer
from steptune.engine.types import PromptBatch, RolloutBatch, ScoredBatch

torch.set_num_threads(1)

VOCAB = 23
SPEC = DenseModel(num_layers=2, d_model=16, num_heads=4, num_kv_heads=2, d_ff=24)
GROUP = 4
MAX_LEN = 9


def small_model(seed: int = 3) -> Transformer:
    """Return a model whose weights are large enough that attention matters."""
    model = build_model(SPEC, VOCAB, seed)
    with torch.no_grad():
        for param in model.parameters():
            if param.ndim == 2:
                param.mul_(12)
    return model


def scored_batch(num_rows: int = 16, seed: int = 0, version: int = 5) -> ScoredBatch:
    """Return rows of every length between 1 and the limit, off-policy enough for clips to bite, one row masked."""
    g = torch.Generator().manual_seed(seed)
    groups = num_rows // GROUP
    prompt_B = torch.randint(2, 7, (groups,), generator=g).repeat_interleave(GROUP)
    length_B = torch.randint(1, MAX_LEN + 1, (num_rows,), generator=g)
    mask_BT = torch.arange(MAX_LEN) < length_B[:, None]
    tokens_BP = torch.randint(1, VOCAB, (num_rows, 6), generator=g) * (torch.arange(6) < prompt_B[:, None])
    tokens_BP = tokens_BP[torch.arange(num_rows) // GROUP * GROUP]  # the rows of a group have one prompt
    prompts = PromptBatch(
        tokens_BP=tokens_BP,
        lengths_B=prompt_B,
        group_B=torch.arange(num_rows) // GROUP,
        problem_B=torch.arange(num_rows) // GROUP,
        sample_B=torch.arange(num_rows) % GROUP,
    )
    rollout = RolloutBatch(
        prompts=prompts,
        completion_BT=torch.randint(1, VOCAB, (num_rows, MAX_LEN), generator=g) * mask_BT,
        lengths_B=length_B,
        logprobs_BT=-(3 + torch.rand(num_rows, MAX_LEN, generator=g)) * mask_BT,
        versions_BT=torch.where(mask_BT, version, -1).int(),
        finished_B=length_B < MAX_LEN,
        entropy=1.0,
    )
    return ScoredBatch(
        rollout=rollout,
        raw_reward_B=torch.zeros(num_rows),
        reward_B=torch.zeros(num_rows),
        advantage_B=torch.randn(num_rows, generator=g),
        train_mask_B=torch.arange(num_rows) != 2,
    )


def small_trainer(
    *, knobs: EngineKnobs | None = None, reference: Transformer | None = None, **algorithm: object
) -> Trainer:
    """Return a trainer of `small_model` with the given algorithm fields."""
    spec = AlgorithmSpec.model_validate({"group_size": GROUP, "max_completion_len": MAX_LEN, "lr": 1e-2, **algorithm})
    return Trainer(small_model(), spec, knobs or EngineKnobs(), 0, reference)


def flat_params(model: Transformer) -> torch.Tensor:
    """Return all parameters as one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])
