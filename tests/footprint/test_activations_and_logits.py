import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import FSDP_8, MEGATRON_64

from steptune.footprint.activations import kept_term, working_term
from steptune.footprint.layout import TrainLayout
from steptune.footprint.logits import logits_term
from steptune.shapes.config import shape_of
from steptune.shapes.registry import models, named_shape
from steptune.shapes.shape import DenseFeedForward, Layers, ModelShape

QWEN = named_shape("qwen2.5-7b")
PLAIN = FSDP_8.model_copy(update={"recompute": "none", "has_fused_kernels": True})
SHAPES = st.sampled_from([model.shape() for model in models()])


def gpt(num_layers: int) -> ModelShape:
    """A GPT layer of width 64: heads as wide as the model, four times that in the feed-forward, nothing gated."""
    llama = shape_of(
        "gpt",
        {
            "model_type": "llama",
            "hidden_size": 64,
            "num_hidden_layers": num_layers,
            "num_attention_heads": 4,
            "intermediate_size": 256,
            "vocab_size": 100,
        },
    )
    layers = Layers(
        count=num_layers, mixer=llama.layers[0].mixer, feed_forward=DenseFeedForward(width=256, is_gated=False)
    )
    return llama.model_copy(update={"layers": (layers,)})


def test_a_gpt_layer_keeps_the_published_bytes_a_token() -> None:
    # 34 bytes x width (arXiv 2205.05198, section 4.1), of which 2 are dropout masks that no model here has,
    # and 4 bytes a head for FlashAttention's row sums in place of the scores
    assert kept_term(gpt(1), PLAIN, 1).low == 32 * 64 + 4 * 4


def test_full_recompute_keeps_two_bytes_a_token_layer_and_width() -> None:
    kept = kept_term(QWEN, FSDP_8, 1_000)
    assert kept.mid == 2 * 28 * 3_584 * 1_000
    assert kept_term(QWEN, FSDP_8.model_copy(update={"offloads_inputs": True}), 1_000).high == 0


def test_recomputing_the_attention_saves_nothing_beside_flash_attention() -> None:
    selective = PLAIN.model_copy(update={"recompute": "selective"})
    assert kept_term(QWEN, selective, 100) == kept_term(QWEN, PLAIN, 100)


def test_tensor_and_sequence_parallelism_divide_a_layer() -> None:
    whole = MEGATRON_64.model_copy(update={"tensor": 1, "recompute": "none"})
    split = whole.model_copy(update={"tensor": 4})
    assert kept_term(QWEN, split, 100).low == pytest.approx(kept_term(QWEN, whole, 100).low / 4)
    without = split.model_copy(update={"sequence_parallel": False})
    assert kept_term(QWEN, whole, 100).low / 4 < kept_term(QWEN, without, 100).low < kept_term(QWEN, whole, 100).low


def test_logits_are_tokens_times_vocabulary_in_several_copies() -> None:
    term = logits_term(QWEN, FSDP_8, 1_000, with_grads=True)
    assert (term.low, term.mid, term.high) == (4 * 152_064_000, 10 * 152_064_000, 14 * 152_064_000)
    in_place = logits_term(QWEN, FSDP_8.model_copy(update={"loss": "in_place"}), 1_000, with_grads=True)
    assert (in_place.low, in_place.high) == (2 * 152_064_000, 10 * 152_064_000)
    chunked = logits_term(QWEN, FSDP_8.model_copy(update={"logits_tokens": 100}), 1_000, with_grads=True)
    assert chunked.mid == term.mid / 10


def test_megatrons_one_fp32_copy_becomes_its_gradient() -> None:
    layout = MEGATRON_64.model_copy(update={"tensor": 1, "loss": "vocab_parallel"})
    made = logits_term(QWEN, layout, 1_000, with_grads=True)
    numbers = 152_064_000
    # bf16 logits and the copy; at most the gradient's cast to bf16 beside them
    assert (made.low, made.mid, made.high) == (2 * numbers, 6 * numbers, 8 * numbers)
    assert logits_term(QWEN, layout, 1_000, with_grads=False).high == 6 * numbers


def test_a_fused_norm_keeps_no_copies_even_at_the_upper_bound() -> None:
    eager = PLAIN.model_copy(update={"has_fused_kernels": False})
    known, unknown = (kept_term(QWEN, layout, 100) for layout in (PLAIN, eager))
    # two norms a layer, 28 layers, 8 bytes a unit of width and token
    assert unknown.high - known.high == 2 * 28 * 8 * 3_584 * 100
    assert known.low <= known.mid <= known.high
    at_work = [working_term(QWEN, layout, 100, with_grads=False).high for layout in (PLAIN, eager)]
    assert at_work[1] - at_work[0] == 2 * 8 * 3_584 * 100


def test_transformers_own_loss_holds_three_copies_in_fp32_going_back() -> None:
    layout = FSDP_8.model_copy(update={"loss": "causal"})
    # the log-softmax, its gradient and the logits' gradient: 3 x 4 bytes; forward bf16, fp32 and log-softmax
    assert logits_term(QWEN, layout, 1_000, with_grads=True).mid == 12 * 152_064_000
    assert logits_term(QWEN, layout, 1_000, with_grads=False).mid == 10 * 152_064_000


def test_preference_training_holds_two_models_logits() -> None:
    layout = FSDP_8.model_copy(update={"loss": "preference"})
    # policy: fp32 and log-softmax; reference: bf16, fp32 and log-softmax
    assert logits_term(QWEN, layout, 1_000, with_grads=True).mid == (4 + 4 + 2 + 4 + 4) * 152_064_000


def test_a_loss_fused_with_the_head_holds_no_logits_to_speak_of() -> None:
    term = logits_term(QWEN, FSDP_8.model_copy(update={"loss": "fused"}), 1_000, with_grads=True)
    assert (term.mid, term.high) == (0, 2 * 152_064_000)


def test_every_second_operator_keeps_about_half_and_unknown_attention_may_keep_scores() -> None:
    fused = FSDP_8.model_copy(update={"has_fused_kernels": True, "recompute": "none"})
    whole = kept_term(QWEN, fused, 1_000)
    half = kept_term(QWEN, fused.model_copy(update={"recompute": "operators"}), 1_000)
    assert half.mid == pytest.approx(whole.mid / 2)
    eager = kept_term(QWEN, fused.model_copy(update={"may_keep_scores": True}), 1_000)
    # 28 layers x 28 heads x 4,096 keys x 6 bytes a token
    assert eager.high - whole.high == pytest.approx(1_000 * 28 * 28 * 4_096 * 6)
    assert eager.mid == whole.mid


@given(SHAPES, st.sampled_from(["none", "operators", "full"]), st.integers(0, 50_000), st.integers(0, 50_000))
def test_more_tokens_never_need_fewer_bytes(shape: ModelShape, recompute: str, one: int, two: int) -> None:
    layout = TrainLayout.model_validate({**FSDP_8.model_dump(), "recompute": recompute})
    few, many = sorted((one, two))
    for with_grads in (False, True):
        assert (
            logits_term(shape, layout, few, with_grads=with_grads).mid
            <= logits_term(shape, layout, many, with_grads=with_grads).mid
        )
        assert (
            working_term(shape, layout, few, with_grads=with_grads).mid
            <= working_term(shape, layout, many, with_grads=with_grads).mid
        )
    assert kept_term(shape, layout, few).mid <= kept_term(shape, layout, many).mid
    assert kept_term(shape, layout, 0).high == 0


@given(SHAPES, st.integers(1, 10_000))
def test_bounds_are_in_order_and_recompute_keeps_less(shape: ModelShape, tokens: int) -> None:
    eager = FSDP_8.model_copy(update={"recompute": "none"})
    for layout in (PLAIN, eager):
        term = kept_term(shape, layout, tokens)
        assert term.low <= term.mid <= term.high
        assert kept_term(shape, FSDP_8, tokens).high < term.low


@given(st.integers(1, 20))
def test_more_layers_keep_more(count: int) -> None:
    assert kept_term(gpt(count + 1), PLAIN, 7).mid > kept_term(gpt(count), PLAIN, 7).mid
