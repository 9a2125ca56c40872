"""The matrices and vectors of every kind of layer: the one place from which parameters, FLOPs and adapters follow."""

from dataclasses import dataclass
from typing import assert_never, final

from steptune.shapes.shape import (
    DenseFeedForward,
    Experts,
    FeedForward,
    GatedDelta,
    GroupedAttention,
    LatentAttention,
    Mamba2,
    Mixer,
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """``count`` matrices of which a token meets ``active``: 2 * inputs * outputs FLOPs each."""

    inputs: int
    outputs: int
    count: int = 1
    active: int = 1
    is_expert: bool = False
    """Whether expert parallelism divides it."""

    @property
    def numbers(self) -> int:
        """Parameters of all of them."""
        return self.inputs * self.outputs * self.count

    @property
    def active_numbers(self) -> int:
        """Parameters one token meets."""
        return self.inputs * self.outputs * self.active


def mixer_matrices(mixer: Mixer | None, d_model: int) -> tuple[Matrix, ...]:
    """Return the projections of a mixer."""
    match mixer:
        case None:
            return ()
        case GroupedAttention():
            queries, keys = mixer.num_heads * mixer.head_dim, mixer.num_kv_heads * mixer.head_dim
            wide = queries * (2 if mixer.has_gate else 1)
            return (_matrix(d_model, wide + 2 * keys), _matrix(queries, d_model))
        case LatentAttention():
            return _latent(mixer, d_model)
        case GatedDelta():
            values = mixer.value_heads * mixer.value_dim
            # queries, keys, values and the output gate; two numbers a value head (decay and write strength)
            into = 2 * mixer.key_heads * mixer.key_dim + 2 * values + 2 * mixer.value_heads
            return (_matrix(d_model, into), _matrix(values, d_model))
        case Mamba2():
            inner = mixer.heads * mixer.head_dim
            return (
                _matrix(d_model, 2 * inner + 2 * mixer.groups * mixer.state + mixer.heads),
                _matrix(inner, d_model),
            )
        case _:
            assert_never(mixer)


def feed_forward_matrices(feed_forward: FeedForward | None, d_model: int) -> tuple[Matrix, ...]:
    """Return the projections of a feed-forward, the router's included."""
    match feed_forward:
        case None:
            return ()
        case DenseFeedForward(width=width):
            return _in_and_out(d_model, width, is_gated=feed_forward.is_gated)
        case Experts():
            return _experts(feed_forward, d_model)
        case _:
            assert_never(feed_forward)


def mixer_vectors(mixer: Mixer | None, d_model: int) -> int:
    """Return the parameters of a mixer outside its projections: biases, norms, convolutions, decays."""
    match mixer:
        case None:
            return 0
        case GroupedAttention():
            queries, keys = mixer.num_heads * mixer.head_dim, mixer.num_kv_heads * mixer.head_dim
            biases = (queries + 2 * keys) * mixer.qkv_bias + d_model * mixer.out_bias
            return biases + 2 * mixer.head_dim * mixer.qk_norm + mixer.num_heads * mixer.has_sinks
        case LatentAttention():
            return mixer.kv_rank + (mixer.q_rank or 0) + 2 * mixer.index_dim
        case GatedDelta():
            channels = 2 * mixer.key_heads * mixer.key_dim + mixer.value_heads * mixer.value_dim
            return channels * mixer.conv_width + 2 * mixer.value_heads + mixer.value_dim
        case Mamba2():
            inner = mixer.heads * mixer.head_dim
            channels = inner + 2 * mixer.groups * mixer.state
            return channels * (mixer.conv_width + 1) + 3 * mixer.heads + inner
        case _:
            assert_never(mixer)


def feed_forward_vectors(feed_forward: FeedForward | None, d_model: int) -> int:
    """Return the parameters of a feed-forward outside its projections."""
    if not isinstance(feed_forward, Experts):
        return 0
    num = feed_forward.num_experts
    width_in = feed_forward.width * (2 if feed_forward.is_gated else 1)
    biases = num * (width_in + d_model + 1) if feed_forward.has_bias else 0
    return biases + num * feed_forward.has_router_bias


def _latent(mixer: LatentAttention, d_model: int) -> tuple[Matrix, ...]:
    query_width = mixer.num_heads * (mixer.nope_dim + mixer.rope_dim)
    if mixer.q_rank is None:
        queries: tuple[Matrix, ...] = (_matrix(d_model, query_width),)
    else:
        queries = (_matrix(d_model, mixer.q_rank), _matrix(mixer.q_rank, query_width))
    indexer: tuple[Matrix, ...] = ()
    if mixer.index_heads:  # its queries from the bottleneck, one key, one weight a head
        indexer = (
            _matrix(mixer.q_rank or d_model, mixer.index_heads * mixer.index_dim),
            _matrix(d_model, mixer.index_dim),
            _matrix(d_model, mixer.index_heads),
        )
    return (
        *queries,
        *indexer,
        _matrix(d_model, mixer.kv_rank + mixer.rope_dim),
        _matrix(mixer.kv_rank, mixer.num_heads * (mixer.nope_dim + mixer.value_dim)),
        _matrix(mixer.num_heads * mixer.value_dim, d_model),
    )


def _experts(experts: Experts, d_model: int) -> tuple[Matrix, ...]:
    shared = _in_and_out(d_model, experts.shared_width, is_gated=experts.is_gated) if experts.shared_width else ()
    gate = (_matrix(d_model, 1),) if experts.has_shared_gate else ()
    latent = experts.latent_width
    around = (_matrix(d_model, latent), _matrix(latent, d_model)) if latent else ()
    routed = tuple(
        Matrix(inputs=one.inputs, outputs=one.outputs, count=experts.num_experts, active=experts.top_k, is_expert=True)
        for one in _in_and_out(latent or d_model, experts.width, is_gated=experts.is_gated)
    )
    return (_matrix(d_model, experts.num_experts), *around, *routed, *shared, *gate)


def _in_and_out(d_model: int, width: int, *, is_gated: bool) -> tuple[Matrix, ...]:
    return (_matrix(d_model, width * (2 if is_gated else 1)), _matrix(width, d_model))


def _matrix(inputs: int, outputs: int) -> Matrix:
    return Matrix(inputs=inputs, outputs=outputs)
