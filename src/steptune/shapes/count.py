"""Parameters of a model: all of them, those one token meets, and those an adapter trains.

The surprise: published "active" counts differ in whether they include embedding and head; here both are told apart.
"""

from dataclasses import dataclass
from typing import final

from steptune.shapes.matrices import (
    Matrix,
    feed_forward_matrices,
    feed_forward_vectors,
    mixer_matrices,
    mixer_vectors,
)
from steptune.shapes.shape import Layers, ModelShape


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """Numbers of parameters by what divides them over devices.

    Example: DeepSeek-V3 has 671e9 in all, 654e9 of them in routed experts, and a token meets 37e9.
    """

    embedding: int
    """Input embedding."""
    head: int
    """Output head; 0 where it is the embedding."""
    backbone: int
    """Layers without the routed experts."""
    experts: int
    """Routed experts."""
    active_backbone: int
    """What one token meets of the layers."""

    @property
    def total(self) -> int:
        """All parameters."""
        return self.embedding + self.head + self.backbone + self.experts

    @property
    def active(self) -> int:
        """What one token meets, the whole embedding and head included, as most model cards count."""
        return self.active_backbone + self.embedding + self.head


def parameters(shape: ModelShape) -> Parameters:
    """Count the parameters of the text model."""
    embedding = shape.vocab_size * shape.d_model
    backbone, experts, active = shape.d_model, 0, shape.d_model  # the last norm
    for group in shape.layers:
        matrices, vectors = layer_matrices(group, shape.d_model), layer_vectors(group, shape.d_model)
        routed = sum(one.numbers for one in matrices if one.is_expert)
        backbone += group.count * (sum(one.numbers for one in matrices) - routed + vectors)
        experts += group.count * routed
        active += group.count * (sum(one.active_numbers for one in matrices) + vectors)
    return Parameters(
        embedding=embedding,
        head=0 if shape.is_tied else embedding,
        backbone=backbone,
        experts=experts,
        active_backbone=active,
    )


def adapter_parameters(shape: ModelShape, rank: int) -> int:
    """Return what LoRA of ``rank`` trains on every linear layer but router and head: rank * (inputs + outputs) each.

    Source: arXiv 2106.09685, section 4.1; `target_modules="all-linear"` of PEFT leaves the head out. Routed experts
    are counted: each has its own pair.
    """
    total = 0
    for group in shape.layers:
        for one in layer_matrices(group, shape.d_model):
            total += group.count * one.count * rank * (one.inputs + one.outputs)
    return total


def layer_matrices(group: Layers, d_model: int) -> tuple[Matrix, ...]:
    """Return the matrices of one layer of a group."""
    return (*mixer_matrices(group.mixer, d_model), *feed_forward_matrices(group.feed_forward, d_model))


def layer_vectors(group: Layers, d_model: int) -> int:
    """Return the parameters of one layer outside its matrices."""
    own = mixer_vectors(group.mixer, d_model) + feed_forward_vectors(group.feed_forward, d_model)
    return own + group.num_norms * d_model
