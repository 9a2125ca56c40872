"""Writes what transformers makes of tiny folders, for plain tests to be held against: `tests/engine/hf/reference`.

Run with transformers installed: ``python tests/peers/hf_reference.py``. Weights are a formula of their names in the
file (`hash_fill`), so the pinned part is small: configuration, names and shapes as transformers saves them, logits.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parents[1] / "engine" / "hf"))
from hash_fill import filled

REFERENCE = Path(__file__).parents[1] / "engine" / "hf" / "reference"
TOKENS = [3, 17, 0, 22, 9, 9, 14, 5]
PLACES = [(position, token) for position in (0, 4, 7) for token in (1, 6, 13, 20)]
"""Where logits are pinned: (position, token)."""
SHAPE: dict[str, Any] = {
    **{"vocab_size": 24, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64},
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
LINEAR = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 4},
    **{"head_dim": 8, "layer_types": ["linear_attention", "full_attention"]},
}
LLAMA3 = {
    **{"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 16,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": True, "rms_norm_eps": 1e-5}),
    "llama3_rope": ("Llama", {"attention_bias": True, "rope_parameters": LLAMA3}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
    "qwen3_moe": ("Qwen3Moe", {"head_dim": 8, **EXPERTS, "norm_topk_prob": True}),
    "qwen3_5": ("Qwen3_5Text", LINEAR),
    "qwen3_5_moe": ("Qwen3_5MoeText", {**LINEAR, **EXPERTS, "shared_expert_intermediate_size": 8}),
}


def reference(family: str) -> dict[str, Any]:
    """Return configuration, tensors and logits of one family, as transformers has them."""
    import transformers

    name, settings = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**SHAPE | settings)
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config).float()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        weights = Path(folder) / "model.safetensors"
        with safe_open(weights, framework="pt") as file:
            shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118  it is no mapping
        save_file({key: filled(key, shape) for key, shape in shapes.items()}, weights, metadata={"format": "pt"})
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        written = json.loads((Path(folder) / "config.json").read_text())
    with torch.no_grad():
        logits = theirs(torch.tensor([TOKENS])).logits[0]
    return {
        "config": written,
        "tensors": shapes,
        "tokens": TOKENS,
        "logits": [[position, token, round(float(logits[position, token]), 6)] for position, token in PLACES],
        "made_with": f"transformers {transformers.__version__}",
    }


def main() -> None:
    """Write every family's file."""
    REFERENCE.mkdir(exist_ok=True)
    for family in FAMILIES:
        made = reference(family)
        rows = {key: json.dumps(value) for key, value in made.items()}
        text = ",\n".join(f'  "{key}": {value}' for key, value in rows.items())
        (REFERENCE / f"{family}.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
