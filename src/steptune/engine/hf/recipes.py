"""How our tensors are made of Hugging Face's, by name: one list that loading, saving and every check read.

We keep query, key and value in one tensor, gate and up in another, all inputs of a recurrent layer in a third, and all
experts of a layer stacked; files keep them apart. How a tensor lies in its parts is its `layouts.Layout`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from steptune.core.model import DecoderModel, ExpertFields, HybridFields, ModelSpec
from steptune.engine.hf.layouts import CONVOLUTION, ROWS, ZERO_CENTRED, Layout, Shape, gated_queries


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """One of our tensors: ``Recipe(ours="norm.weight", parts=(("model.norm.weight", (576,)),))``."""

    ours: str
    parts: tuple[tuple[str, Shape], ...]
    """File names and shapes, in the order they are joined; ``{expert}`` stands for an expert's number."""
    num_experts: int | None = None
    """How often the parts repeat; None is once, and unstacked."""
    layout: Layout = ROWS

    def files(self) -> Iterator[tuple[str, Shape]]:
        """Yield every tensor in a file that goes into this one."""
        for expert in range(self.num_experts or 1):
            for name, shape in self.parts:
                yield name.format(expert=expert), shape


def recipes(spec: ModelSpec, vocab_size: int, *, stacked_experts: bool = False) -> list[Recipe]:
    """Return every tensor of the model; together they name every tensor of the file, once.

    ``stacked_experts``: the file holds a layer's experts in two tensors, as published Qwen3.5 weights do.
    """
    d_model = spec.d_model
    norms = ZERO_CENTRED if isinstance(spec, HybridFields) else ROWS
    found = [Recipe(ours="embed.weight", parts=(("model.embed_tokens.weight", (vocab_size, d_model)),))]
    for layer in range(spec.num_layers):
        ours, theirs = f"blocks.{layer}.", f"model.layers.{layer}."
        found.append(_norm(ours + "attn_norm", theirs + "input_layernorm", d_model, norms))
        if isinstance(spec, HybridFields) and not spec.has_full_attention(layer):
            found += _recurrent(spec, ours + "attention.", theirs + "linear_attn.")
        else:
            found += _attention(spec, ours + "attention.", theirs + "self_attn.", norms)
        found.append(_norm(ours + "ffn_norm", theirs + "post_attention_layernorm", d_model, norms))
        if isinstance(spec, ExpertFields):
            found += _experts(spec, ours + "ffn.", theirs + "mlp.", is_stacked=stacked_experts)
        else:
            found += _swiglu(d_model, spec.d_ff, ours + "ffn.", theirs + "mlp.")
    found.append(_norm("norm", "model.norm", d_model, norms))
    if not spec.tie_embeddings:
        found.append(_one("head.weight", "lm_head.weight", (vocab_size, d_model)))
    return found


def _one(ours: str, theirs: str, shape: Shape, layout: Layout = ROWS) -> Recipe:
    return Recipe(ours=ours, parts=((theirs, shape),), layout=layout)


def _norm(ours: str, theirs: str, width: int, layout: Layout) -> Recipe:
    return _one(f"{ours}.weight", f"{theirs}.weight", (width,), layout)


def _attention(spec: DecoderModel, ours: str, theirs: str, norms: Layout) -> list[Recipe]:
    q_width = spec.num_heads * spec.head_width
    layout = gated_queries(spec.num_heads, spec.head_width) if spec.attention_gate else ROWS
    widths = (("q", q_width * (2 if spec.attention_gate else 1)), ("k", spec.kv_width), ("v", spec.kv_width))
    weights = tuple((f"{theirs}{p}_proj.weight", (n, spec.d_model)) for p, n in widths)
    found = [
        Recipe(ours=ours + "qkv.weight", parts=weights, layout=layout),
        _one(ours + "out.weight", theirs + "o_proj.weight", (spec.d_model, q_width)),
    ]
    if spec.attention_bias:
        biases = tuple((f"{theirs}{p}_proj.bias", (n,)) for p, n in widths)
        found += [
            Recipe(ours=ours + "qkv.bias", parts=biases, layout=layout),
            _one(ours + "out.bias", theirs + "o_proj.bias", (spec.d_model,)),
        ]
    if spec.qk_norm:
        found += [_norm(ours + name, theirs + name, spec.head_width, norms) for name in ("q_norm", "k_norm")]
    return found


def _recurrent(spec: HybridFields, ours: str, theirs: str) -> list[Recipe]:
    heads, values = spec.linear_value_heads, spec.linear_value_heads * spec.linear_value_dim
    widths = (("qkv", spec.conv_channels), ("z", values), ("b", heads), ("a", heads))
    inputs = tuple((f"{theirs}in_proj_{p}.weight", (n, spec.d_model)) for p, n in widths)
    return [
        Recipe(ours=ours + "inputs.weight", parts=inputs),
        _one(ours + "conv", theirs + "conv1d.weight", (spec.conv_channels, 1, spec.conv_width), CONVOLUTION),
        _one(ours + "log_rate", theirs + "A_log", (heads,)),
        _one(ours + "rate_bias", theirs + "dt_bias", (heads,)),
        _norm(ours + "norm", theirs + "norm", spec.linear_value_dim, ROWS),  # the one norm that is not zero-centred
        _one(ours + "out.weight", theirs + "out_proj.weight", (spec.d_model, values)),
    ]


def _swiglu(d_model: int, width: int, ours: str, theirs: str) -> list[Recipe]:
    gate_up = tuple((f"{theirs}{p}_proj.weight", (width, d_model)) for p in ("gate", "up"))
    return [
        Recipe(ours=ours + "gate_up.weight", parts=gate_up),
        _one(ours + "down.weight", theirs + "down_proj.weight", (d_model, width)),
    ]


def _experts(spec: ExpertFields, ours: str, theirs: str, *, is_stacked: bool) -> list[Recipe]:
    d_model, width, count = spec.d_model, spec.d_expert, spec.num_experts
    found = [_one(ours + "router.weight", theirs + "gate.weight", (count, d_model))]
    if is_stacked:
        found += [
            _one(ours + "gate_up", theirs + "experts.gate_up_proj", (count, 2 * width, d_model)),
            _one(ours + "down", theirs + "experts.down_proj", (count, d_model, width)),
        ]
    else:
        expert = theirs + "experts.{expert}."
        gate_up = tuple((f"{expert}{p}_proj.weight", (width, d_model)) for p in ("gate", "up"))
        found += [
            Recipe(ours=ours + "gate_up", parts=gate_up, num_experts=count),
            Recipe(ours=ours + "down", parts=((expert + "down_proj.weight", (d_model, width)),), num_experts=count),
        ]
    if spec.d_shared_expert is not None:
        found += _swiglu(d_model, spec.d_shared_expert, ours + "shared.", theirs + "shared_expert.")
        found.append(_one(ours + "shared_gate.weight", theirs + "shared_expert_gate.weight", (1, d_model)))
    return found
