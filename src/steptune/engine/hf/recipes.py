"""How our tensors are made of Hugging Face's, by name: one list that loading, saving and every check read.

We keep query, key and value in one tensor, gate and up in another, and all experts of a layer stacked; files keep
them apart. Each of our tensors is the concatenation of its parts' rows, repeated for every expert if stacked.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from steptune.core.model import DecoderModel, DenseModel, MoEModel

Shape = tuple[int, ...]

LoadableModel = DenseModel | MoEModel
"""Families that have files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """One of our tensors: ``Recipe(ours="norm.weight", parts=(("model.norm.weight", (576,)),))``."""

    ours: str
    parts: tuple[tuple[str, Shape], ...]
    """File names and shapes, in the order their rows are joined; ``{expert}`` stands for an expert's number."""
    num_experts: int | None = None
    """How often the parts repeat; None is once, and unstacked."""

    def files(self) -> Iterator[tuple[str, Shape]]:
        """Yield every tensor in a file that goes into this one."""
        for expert in range(self.num_experts or 1):
            for name, shape in self.parts:
                yield name.format(expert=expert), shape


def recipes(spec: LoadableModel, vocab_size: int) -> list[Recipe]:
    """Return every tensor of the model; together they name every tensor of the file, once."""
    d_model = spec.d_model
    found = [Recipe(ours="embed.weight", parts=(("model.embed_tokens.weight", (vocab_size, d_model)),))]
    for layer in range(spec.num_layers):
        ours, theirs = f"blocks.{layer}.", f"model.layers.{layer}."
        found += _norm(ours + "attn_norm", theirs + "input_layernorm", d_model)
        found += _attention(spec, ours + "attention.", theirs + "self_attn.")
        found += _norm(ours + "ffn_norm", theirs + "post_attention_layernorm", d_model)
        if isinstance(spec, MoEModel):
            found += _experts(spec, ours + "ffn.", theirs + "mlp.")
        else:
            found += _swiglu(d_model, spec.d_ff, ours + "ffn.", theirs + "mlp.")
    found += _norm("norm", "model.norm", d_model)
    if not spec.tie_embeddings:
        found.append(Recipe(ours="head.weight", parts=(("lm_head.weight", (vocab_size, d_model)),)))
    return found


def _norm(ours: str, theirs: str, width: int) -> list[Recipe]:
    return [Recipe(ours=f"{ours}.weight", parts=((f"{theirs}.weight", (width,)),))]


def _attention(spec: DecoderModel, ours: str, theirs: str) -> list[Recipe]:
    q_width = spec.num_heads * spec.head_width
    widths = (("q", q_width), ("k", spec.kv_width), ("v", spec.kv_width))
    found = [
        Recipe(
            ours=ours + "qkv.weight", parts=tuple((f"{theirs}{p}_proj.weight", (n, spec.d_model)) for p, n in widths)
        ),
        Recipe(ours=ours + "out.weight", parts=((theirs + "o_proj.weight", (spec.d_model, q_width)),)),
    ]
    if spec.attention_bias:
        found += [
            Recipe(ours=ours + "qkv.bias", parts=tuple((f"{theirs}{p}_proj.bias", (n,)) for p, n in widths)),
            Recipe(ours=ours + "out.bias", parts=((theirs + "o_proj.bias", (spec.d_model,)),)),
        ]
    if spec.qk_norm:
        found += [
            *_norm(ours + "q_norm", theirs + "q_norm", spec.head_width),
            *_norm(ours + "k_norm", theirs + "k_norm", spec.head_width),
        ]
    return found


def _swiglu(d_model: int, width: int, ours: str, theirs: str) -> list[Recipe]:
    gate_up = tuple((f"{theirs}{p}_proj.weight", (width, d_model)) for p in ("gate", "up"))
    return [
        Recipe(ours=ours + "gate_up.weight", parts=gate_up),
        Recipe(ours=ours + "down.weight", parts=((theirs + "down_proj.weight", (d_model, width)),)),
    ]


def _experts(spec: MoEModel, ours: str, theirs: str) -> list[Recipe]:
    d_model, width, count = spec.d_model, spec.d_expert, spec.num_experts
    expert = theirs + "experts.{expert}."
    gate_up = tuple((f"{expert}{p}_proj.weight", (width, d_model)) for p in ("gate", "up"))
    return [
        Recipe(ours=ours + "router.weight", parts=((theirs + "gate.weight", (count, d_model)),)),
        Recipe(ours=ours + "gate_up", parts=gate_up, num_experts=count),
        Recipe(ours=ours + "down", parts=((expert + "down_proj.weight", (d_model, width)),), num_experts=count),
    ]
