from typing import get_args

import pytest
import torch

from steptune.core.model import MoEModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.host_reads import HostReads
from steptune.engine.knobs import Dispatch
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model
from steptune.engine.moe import MoELayer
from steptune.engine.routes import RouteTape

SPEC = MoEModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, head_dim=12, num_experts=4, top_k=2, d_expert=8)
SHARED = SPEC.model_copy(update={"d_shared_expert": 12, "norm_topk_prob": False})
TOKENS = torch.randint(0, 40, (11,), generator=torch.Generator().manual_seed(0))
DISPATCHES: tuple[Dispatch, ...] = get_args(Dispatch)


def context(dispatch: Dispatch = "grouped", routes: RouteTape | None = None) -> Context:
    return Context(attend=attend_runs([Run(len(TOKENS), 1)]), moe_dispatch=dispatch, routes=routes)


def logits(model: Transformer, at: Context, *, recompute: bool = False) -> torch.Tensor:
    return model.logits(model.hidden(TOKENS, torch.arange(len(TOKENS)), at, recompute=recompute))


def gradients(model: Transformer, at: Context, *, recompute: bool = False) -> list[torch.Tensor]:
    model.zero_grad()
    logits(model, at, recompute=recompute).log_softmax(-1)[:, 0].sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("spec", [SPEC, SHARED])
@pytest.mark.parametrize("recompute", [False, True])
def test_a_whole_model_has_the_same_gradients_under_every_dispatch(spec: MoEModel, recompute: bool) -> None:
    model = build_model(spec, 40, seed=0)
    reference = gradients(model, context("where"))
    assert len(reference) == len(list(model.parameters()))
    for dispatch in DISPATCHES:
        for ours, where in zip(gradients(model, context(dispatch), recompute=recompute), reference, strict=True):
            torch.testing.assert_close(ours, where, rtol=1e-4, atol=1e-6)


def test_the_layer_is_a_plain_sum_over_all_experts_with_the_other_gates_at_zero() -> None:
    layer = build_model(SHARED, 40, seed=0).blocks[0].get_submodule("ffn")
    assert isinstance(layer, MoELayer)
    assert layer.shared is not None
    assert layer.shared_gate is not None
    x = torch.randn(7, 16, generator=torch.Generator().manual_seed(1))
    probs = (x @ layer.router.weight.T).softmax(-1)
    gates = torch.where(probs >= probs.topk(2).values[:, -1:], probs, 0.0)
    gate, up = torch.einsum("xd,efd->xef", x, layer.gate_up).chunk(2, dim=-1)
    each = torch.einsum("xef,edf->xed", torch.nn.functional.silu(gate) * up, layer.down)
    expected = (gates[..., None] * each).sum(1) + layer.shared_gate(x).sigmoid() * layer.shared(x)
    torch.testing.assert_close(layer(x, context()), expected, rtol=1e-4, atol=1e-6)


def test_normalised_gates_sum_to_one_and_follow_the_order_of_the_router() -> None:
    layer = build_model(SPEC, 40, seed=0).blocks[0].get_submodule("ffn")
    assert isinstance(layer, MoELayer)
    experts, gates = layer.route(torch.randn(9, 16), context())
    torch.testing.assert_close(gates.sum(-1), torch.ones(9))
    assert (gates[:, 0] >= gates[:, 1]).all()
    assert experts.shape == (9, 2)


def test_the_router_stays_in_float32_under_autocast_and_experts_do_not() -> None:
    model = build_model(SPEC, 40, seed=0)
    layer = model.blocks[0].get_submodule("ffn")
    assert isinstance(layer, MoELayer)
    x = torch.randn(5, 16)
    exact = layer.route(x, context())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.route(x, context())[1], exact[1])
        assert layer(x, context()).dtype is torch.bfloat16


def test_a_training_forward_and_backward_with_grouped_experts_never_waits_for_a_value() -> None:
    model = build_model(SPEC, 40, seed=0)
    at = context("grouped")
    with HostReads() as reads:
        logits(model, at).logsumexp(-1).sum().backward()
    assert reads.counts == {}


def test_replayed_routes_repeat_the_recording_under_other_weights() -> None:
    model = build_model(SPEC, 40, seed=0)
    tape = RouteTape()
    recorded = logits(model, context(routes=tape))
    assert sorted(tape.choices) == [0, 1]
    assert torch.equal(logits(model, context(routes=RouteTape(tape.choices))), recorded)
    other = build_model(SPEC, 40, seed=1)
    free = RouteTape()
    logits(other, context(routes=free))
    assert not torch.equal(free.choices[0], tape.choices[0])  # left alone it would choose otherwise
    check = RouteTape()
    forced = context(routes=RouteTape(tape.choices))
    gradient = gradients(other, forced)
    assert torch.equal(forced.routes.choices[0] if forced.routes else check.choices[0], tape.choices[0])
    names = [name for name, _ in other.named_parameters()]
    assert gradient[names.index("blocks.0.ffn.router.weight")].abs().max() > 0  # the router still learns


def test_recompute_records_the_same_routes() -> None:
    model = build_model(SPEC, 40, seed=0)
    plain, again = RouteTape(), RouteTape()
    gradients(model, context(routes=plain))
    gradients(model, context(routes=again), recompute=True)
    assert all(torch.equal(plain.choices[layer], again.choices[layer]) for layer in (0, 1))


def test_packed_documents_do_not_see_each_other_through_the_experts() -> None:
    model = build_model(SHARED, 40, seed=0)
    first, second = TOKENS[:5], TOKENS[5:]
    packed = model.hidden(
        TOKENS, torch.cat([torch.arange(5), torch.arange(6)]), Context(attend=attend_runs([Run(5, 1), Run(6, 1)]))
    )
    alone = [
        model.hidden(d, torch.arange(len(d)), Context(attend=attend_runs([Run(len(d), 1)]))) for d in (first, second)
    ]
    torch.testing.assert_close(packed, torch.cat(alone), rtol=1e-5, atol=1e-6)


def test_a_router_with_normalised_gates_learns_through_the_normalisation() -> None:
    layer = build_model(SPEC, 40, seed=0).blocks[0].get_submodule("ffn")
    assert isinstance(layer, MoELayer)
    x = torch.randn(7, 16, generator=torch.Generator().manual_seed(1))
    experts, gates = layer.route(x, context())
    weights = torch.randn(7, 2, generator=torch.Generator().manual_seed(2))
    (got,) = torch.autograd.grad((gates * weights).sum(), layer.router.weight)
    # p_a / (p_a + p_b) is the softmax of the chosen logits alone
    chosen = (x @ layer.router.weight.T).gather(1, experts).softmax(-1)
    (wanted,) = torch.autograd.grad((chosen * weights).sum(), layer.router.weight)
    torch.testing.assert_close(got, wanted)
