"""Our models against transformers' own on tiny random weights: logits within 1e-4 in float32, both ways.

Weights are drawn wider than fresh ones, so that routers are decided and a wrong detail shows in the logits.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from steptune.core.model import DenseModel, Llama3Rope, ModelSpec, MoEModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.hf import load_model, save_model
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model

transformers = pytest.importorskip("transformers")

VOCAB, LENGTH, TOLERANCE = 60, 40, 1e-4
TOKENS = torch.randint(0, VOCAB, (LENGTH,), generator=torch.Generator().manual_seed(0))
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 16}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Llama", {"rms_norm_eps": 1e-5, "tie_word_embeddings": True}),
    ("Llama", {"head_dim": 12, "attention_bias": True, "rope_parameters": LLAMA3}),
    ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    (
        "Qwen3",
        {"head_dim": 8, "tie_word_embeddings": False, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}},
    ),
    ("Qwen3Moe", {"head_dim": 16, **EXPERTS, "norm_topk_prob": True}),
    ("Qwen3Moe", {"head_dim": 16, **EXPERTS, "norm_topk_prob": False, "tie_word_embeddings": True}),
]


def widen(model: torch.nn.Module) -> None:
    """Draw every weight with a standard deviation of 0.15 around 0, or around 1 for scales of norms."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, param in model.named_parameters():
            param.normal_(float("norm" in name), 0.15, generator=generator)


def their_logits(model: Any, tokens: Tensor = TOKENS) -> Tensor:
    with torch.no_grad():
        return model.eval()(tokens[None]).logits[0]


def our_logits(model: Transformer) -> Tensor:
    with torch.no_grad():
        context = Context(attend=attend_runs([Run(LENGTH, 1)]))
        return model.logits(model.hidden(TOKENS, torch.arange(LENGTH), context))


@pytest.mark.parametrize(("family", "settings"), CASES)
def test_a_model_of_transformers_gives_its_logits_here(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    config = getattr(transformers, f"{family}Config")(**SHAPE | settings)
    theirs = getattr(transformers, f"{family}ForCausalLM")(config).float()
    widen(theirs)
    theirs.save_pretrained(tmp_path)
    spec, state = load_model(tmp_path)
    ours = Transformer(spec, VOCAB)
    ours.load_state_dict(state)
    expected = their_logits(theirs)
    assert expected.std() > 0.1
    torch.testing.assert_close(our_logits(ours), expected, rtol=0, atol=TOLERANCE)


SPECS: list[ModelSpec] = [
    DenseModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, d_ff=48, rope_scaling=Llama3Rope(factor=4.0)),
    DenseModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=1, d_ff=48, qk_norm=True, tie_embeddings=False),
    MoEModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, head_dim=16, num_experts=5, top_k=2, d_expert=24),
]


@pytest.mark.parametrize("spec", SPECS, ids=["llama", "qwen3", "qwen3_moe"])
@pytest.mark.filterwarnings("ignore")
def test_a_model_of_ours_gives_its_logits_there(spec: ModelSpec, tmp_path: Path) -> None:
    ours = build_model(spec, VOCAB, seed=0)
    widen(ours)
    save_model(tmp_path, spec, ours.state_dict(), token_ids={"eos_token_id": 1, "bos_token_id": 0, "pad_token_id": 2})
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    torch.testing.assert_close(their_logits(theirs), our_logits(ours), rtol=0, atol=TOLERANCE)


@pytest.mark.filterwarnings("ignore")
def test_a_shared_expert_is_that_of_qwen3_5_moe() -> None:
    """Qwen3.5-MoE's sparse block, alone: experts, and one that all tokens take behind a sigmoid gate."""
    from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig
    from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeSparseMoeBlock

    config = Qwen3_5MoeTextConfig(**SHAPE | EXPERTS | {"shared_expert_intermediate_size": 24})
    theirs = Qwen3_5MoeSparseMoeBlock(config)
    widen(theirs)
    spec = MoEModel(d_model=32, num_heads=4, num_kv_heads=2, num_experts=8, top_k=3, d_expert=16, d_shared_expert=24)
    ours = build_model(spec, VOCAB, seed=0).blocks[0].get_submodule("ffn")
    state = theirs.state_dict()
    ours.load_state_dict(
        {
            "router.weight": state["gate.weight"],
            "gate_up": state["experts.gate_up_proj"],
            "down": state["experts.down_proj"],
            "shared.gate_up.weight": torch.cat([state[f"shared_expert.{p}_proj.weight"] for p in ("gate", "up")]),
            "shared.down.weight": state["shared_expert.down_proj.weight"],
            "shared_gate.weight": state["shared_expert_gate.weight"],
        }
    )
    x = torch.randn(LENGTH, 32, generator=torch.Generator().manual_seed(2))
    context = Context(attend=attend_runs([Run(LENGTH, 1)]))
    with torch.no_grad():
        out = theirs(x[None])
        expected = (out[0] if isinstance(out, tuple) else out)[0]
        torch.testing.assert_close(ours(x, context), expected, rtol=0, atol=TOLERANCE)
