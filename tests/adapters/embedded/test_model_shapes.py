import pytest

from steptune.adapters.embedded.shape import shape_of_model
from steptune.core.model import DenseModel, HybridModel, HybridMoEModel, ModelSpec, MoEModel
from steptune.engine.kv_cache import KVCache
from steptune.engine.model import build_model
from steptune.engine.produce import TOKENIZER
from steptune.shapes.cost import kv_bytes_per_token
from steptune.shapes.count import parameters

MODELS: tuple[ModelSpec, ...] = (
    DenseModel(),
    DenseModel(tie_embeddings=False, attention_bias=True, qk_norm=True, padded_vocab=512, head_dim=16),
    MoEModel(),
    MoEModel(d_shared_expert=96),
    HybridModel(),
    HybridMoEModel(num_layers=8, d_shared_expert=64),
)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.kind}-{hash(model) % 1000}")
def test_a_models_shape_has_the_parameters_of_the_engines_own_module(model: ModelSpec) -> None:
    built = build_model(model, TOKENIZER.vocab_size, seed=1)
    assert parameters(shape_of_model(model)).total == sum(p.numel() for p in built.parameters())


@pytest.mark.parametrize("model", MODELS[:5:2], ids=lambda model: model.kind)
def test_a_models_shape_has_the_cache_of_the_engines_own(model: ModelSpec) -> None:
    import torch

    cache = KVCache(model, 3, 10, torch.float32, torch.device("cpu"))
    assert kv_bytes_per_token(shape_of_model(model), 4) * 30 == cache.data.numel() * 4
