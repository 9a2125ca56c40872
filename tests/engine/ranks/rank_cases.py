"""A second rank in the test's own process, and trainers of every family with and without it."""

import os
import pickle
import sys
from pathlib import Path
from typing import final

import torch

from steptune.core.errors import TrialError
from steptune.core.job import AlgorithmSpec
from steptune.core.model import HybridModel, ModelSpec, MoEModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer, build_model
from steptune.engine.ranks.memory import SharedMemory
from steptune.engine.ranks.messages import Answer
from steptune.engine.ranks.second import RankSpec, SecondRank
from steptune.engine.trainer import Trainer

sys.path.insert(0, str(Path(__file__).parents[1]))
from trainer_cases import GROUP, MAX_LEN, SPEC, VOCAB

MODELS: dict[str, ModelSpec] = {
    "dense": SPEC,
    "moe": MoEModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, num_experts=4, top_k=2, d_expert=8),
    "hybrid": HybridModel(
        d_model=16, num_heads=2, num_kv_heads=1, head_dim=8, d_ff=16, linear_key_heads=1, linear_value_heads=2,
        linear_key_dim=8, linear_value_dim=8,
    ),
}  # fmt: skip


@final
class InlineRank:
    """Does what is ordered when the answer is asked for; messages are pickled as they would be on the wire."""

    def __init__(self, spec: RankSpec, memory: SharedMemory) -> None:
        self.rank = SecondRank(spec, memory)
        self.doing = ""
        self.orders: list[bytes] = []
        self.was_killed = False
        self.fails_at_look: int | None = None
        """Look of the first rank at which this one has failed; None never does."""
        self.num_looks = 0

    def send_plain(self, message: object, patience_s: float) -> None:
        del patience_s  # it always listens
        assert not self.orders, "an answer may fill the pipe: who writes behind it waits for whoever wrote it"
        self.orders.append(pickle.dumps(message))

    def receive(self, patience_s: float | None = None) -> Answer:
        del patience_s  # it answers at once
        if self.fails_at_look is not None:
            raise TrialError("the trainer rank 1 failed: MemoryError: 12 GB")
        return pickle.loads(pickle.dumps(self.rank.answer(pickle.loads(self.orders.pop(0)))))

    def has_answer(self) -> bool:
        self.num_looks += 1
        return self.fails_at_look is not None and self.num_looks >= self.fails_at_look

    def close(self, *, at_once: bool = False) -> None:
        self.was_killed = at_once
        self.rank.recorder.close()


def lively_model(family: str, seed: int = 3) -> Transformer:
    """Return a small model whose weights are large enough that every part of it matters."""
    model = build_model(MODELS[family], VOCAB, seed)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if param.ndim >= 2 and not name.endswith("conv"):
                param.mul_(12 if family == "dense" else 4)
    return model


def rank_trainer(
    family: str, num_ranks: int, folder: Path, *, sgd_lr: float | None = None, kl_coef: float = 0.0, **settings: object
) -> Trainer:
    """Return a trainer; ``settings`` are knobs or fields of the algorithm, ``sgd_lr`` shows gradients as they are."""
    knobs = {name: value for name, value in settings.items() if name in EngineKnobs.model_fields}
    fields = {name: value for name, value in settings.items() if name not in knobs}
    algorithm = {"group_size": GROUP, "max_completion_len": MAX_LEN, "lr": 1e-3, "kl_coef": kl_coef, **fields}
    trainer = Trainer(
        lively_model(family),
        AlgorithmSpec.model_validate(algorithm),
        EngineKnobs.model_validate({"train_threads": 1, "train_ranks": num_ranks, **knobs}),
        0,
        lively_model(family, seed=4).requires_grad_(False) if kl_coef > 0 else None,
        folder=folder,
        start_rank=InlineRank,
    )
    if sgd_lr is not None:
        trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=sgd_lr)  # type: ignore[assignment]
    return trainer


def rank_spec(folder: Path) -> RankSpec:
    """Return what a second rank of the dense trainer is started with."""
    algorithm = AlgorithmSpec(group_size=GROUP, max_completion_len=MAX_LEN)
    knobs = EngineKnobs(train_threads=1, train_ranks=2)
    return RankSpec(algorithm=algorithm, knobs=knobs, pad_id=0, folder=folder, parent_pid=os.getpid())
