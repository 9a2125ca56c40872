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


def test_planned_memory_holds_weights_optimizer_logits_and_recurrent_layers() -> None:
    from steptune.adapters.embedded.memory import FIXED_BYTES, memory_bytes
    from steptune.core.job import JobSpec
    from steptune.engine.knobs import EngineKnobs

    def planned(model: ModelSpec, positions: int = 0, **moved: object) -> float:
        knobs = EngineKnobs.model_validate(moved)
        job = JobSpec(name="memory", model=model)
        return memory_bytes(job, knobs, micro_positions=positions, completion_frac=1.0, extra_keys=0, longest=40)

    model = DenseModel(padded_vocab=1024)
    numbers = parameters(shape_of_model(model)).total
    # weights, gradient, two moments and the rollout's copy; without the copy one less
    assert planned(model) > FIXED_BYTES + 20 * numbers
    assert planned(model) - planned(model, handover="alias") == 4 * numbers
    wordy = DenseModel(padded_vocab=9216)
    tables = 20 * 8192 * model.d_model  # 8,192 more words, five times
    # three copies of the logits of 2,048 positions
    assert planned(wordy, 2048) - planned(model, 2048) == pytest.approx(tables + 3 * 4 * 2048 * 8192, rel=1e-6)
    assert planned(wordy, 2048, head_tile_tokens=64) < planned(wordy, 2048)
    hybrid, dense = HybridModel(num_layers=8), DenseModel(num_layers=8)
    per_layer = (planned(hybrid, 2048) - planned(hybrid)) / (planned(dense, 2048) - planned(dense))
    assert per_layer > 1.2
