"""Code for one CUDA device, tested without one.

The default device is `meta`, whose tensors hold nothing and cannot meet any other: whatever the engine makes without
saying where ends the test. A tensor made on the right device stays on the host, where the model is.
"""

from collections.abc import Generator

import pytest
import torch
from loop_cases import small_job

from steptune.core.model import HybridMoEModel, MoEModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.produce import PAD, TOKENIZER, prompt_batch
from steptune.engine.rollout import RolloutEngine

SPECS = {
    "dense": small_job().model,
    "moe": MoEModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, num_experts=4, top_k=2, d_expert=8),
    "hybrid": HybridMoEModel(
        num_layers=4, d_model=16, num_heads=2, num_kv_heads=1, head_dim=8, num_experts=4, d_expert=8
    ),
}


@pytest.fixture
def nowhere() -> Generator[None]:
    """Make `meta` the device of tensors that do not say."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


@pytest.mark.parametrize("family", SPECS)
@pytest.mark.parametrize("levers", [{}, {"share_prefill": True, "compact_finished": True, "rollout_concurrency": 3}])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_rollout_makes_every_tensor_where_the_model_is(
    family: str, levers: dict[str, object], dtype: str, request: pytest.FixtureRequest
) -> None:
    spec = SPECS[family]
    state = build_model(spec, TOKENIZER.vocab_size, seed=0).state_dict()
    knobs = EngineKnobs.model_validate({**levers, "rollout_dtype": dtype})
    engine = RolloutEngine(spec, knobs, vocab_size=TOKENIZER.vocab_size, pad_id=PAD, eos_id=TOKENIZER.eos_id)
    engine.load(state, 0)
    prompts = prompt_batch(["1+2=", "30+4="], range(2), group_size=3)
    request.getfixturevalue("nowhere")
    batch, _ = engine.generate(prompts, max_completion_len=5, temperature=1.0, seed=0)
    assert batch.logprobs_BT.device.type == "cpu"
    engine.score(prompts, batch.completion_BT, batch.lengths_B, temperature=1.0)
