"""Our models against transformers' own on tiny random weights: logits within 1e-4 in float32, both ways.

Weights are drawn wider than fresh ones, so that routers are decided and a wrong detail shows in the logits.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from steptune.core.model import DenseModel, HybridModel, HybridMoEModel, Llama3Rope, ModelSpec, MoEModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.hf import load_model, save_model
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model
from steptune.engine.recur import RunsRecur

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
LINEAR = {
    "num_hidden_layers": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 12,
    "head_dim": 16,
}
SHARED = {"shared_expert_intermediate_size": 24}
QWEN3_5_ROPE = {
    **{"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5},
    **{"mrope_interleaved": True, "mrope_section": [2, 1, 1]},
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
    ("Qwen3_5Text", {**LINEAR, "attention_bias": True, "rope_parameters": QWEN3_5_ROPE}),
    ("Qwen3_5Text", {**LINEAR, "layer_types": ["linear_attention", "full_attention"] * 2, "tie_word_embeddings": True}),
    ("Qwen3_5MoeText", {**LINEAR, **EXPERTS, **SHARED}),
]


def widen(model: torch.nn.Module) -> None:
    """Draw every weight with a standard deviation of 0.15 around what it is in the mean, so 1 for scales of norms."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, param in model.named_parameters():
            mean = float(param.mean()) if param.ndim == 1 and "bias" not in name else 0.0
            param.normal_(mean, 0.15, generator=generator)


def their_logits(model: Any, tokens: Tensor = TOKENS) -> Tensor:
    with torch.no_grad():
        return model.eval()(tokens[None]).logits[0]


def our_logits(model: Transformer) -> Tensor:
    with torch.no_grad():
        context = Context(attend=attend_runs([Run(LENGTH, 1)]), recur=RunsRecur([Run(LENGTH, 1)], TOKENS.device))
        return model.logits(model.hidden(TOKENS, torch.arange(LENGTH), context))


@pytest.mark.parametrize(("family", "settings"), CASES)
def test_a_model_of_transformers_gives_its_logits_here(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    config = getattr(transformers, f"{family}Config")(**SHAPE | settings)
    theirs = getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")(config).float()
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
    HybridModel(d_model=32, num_heads=4, num_kv_heads=2, head_dim=16, d_ff=48, conv_width=3, tie_embeddings=False),
    HybridMoEModel(
        num_layers=3,
        d_model=32,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rotary_frac=0.5,
        full_attention_every=3,
        num_experts=5,
        top_k=2,
        d_expert=24,
        d_shared_expert=16,
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=["llama", "qwen3", "qwen3_moe", "qwen3_5", "qwen3_5_moe"])
@pytest.mark.filterwarnings("ignore")
def test_a_model_of_ours_gives_its_logits_there(spec: ModelSpec, tmp_path: Path) -> None:
    ours = build_model(spec, VOCAB, seed=0)
    widen(ours)
    save_model(tmp_path, spec, ours.state_dict(), token_ids={"eos_token_id": 1, "bos_token_id": 0, "pad_token_id": 2})
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    torch.testing.assert_close(their_logits(theirs), our_logits(ours), rtol=0, atol=TOLERANCE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("experts", [{}, {**EXPERTS, **SHARED}], ids=["qwen3_5", "qwen3_5_moe"])
def test_the_text_part_of_a_model_that_also_sees_is_read(experts: dict[str, Any], tmp_path: Path) -> None:
    name = "Qwen3_5Moe" if experts else "Qwen3_5"
    eyes = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "out_hidden_size": 32}
    config = getattr(transformers, f"{name}Config")(
        text_config={**SHAPE, **LINEAR, **experts, "rope_parameters": QWEN3_5_ROPE}, vision_config=eyes
    )
    theirs = getattr(transformers, f"{name}ForConditionalGeneration")(config).float()
    widen(theirs)
    theirs.save_pretrained(tmp_path)
    spec, state = load_model(tmp_path)
    ours = Transformer(spec, VOCAB)
    ours.load_state_dict(state)
    torch.testing.assert_close(our_logits(ours), their_logits(theirs), rtol=0, atol=TOLERANCE)


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
