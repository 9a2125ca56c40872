import pytest

from steptune.footprint.layout import Place, TrainLayout
from steptune.published.memory_cases import MemoryCase, MemoryLabel, MemoryOutcome, memory_cases
from steptune.score.case_layout import given_tokens, train_layout
from steptune.score.footprint_arm import footprint_answer
from steptune.score.memory import Fits

SMALL = MemoryCase(
    id="",
    outcome=MemoryOutcome.FIT,
    label=MemoryLabel.CLEAR,
    source="",
    framework="prime_rl",
    stage="rl",
    model="Qwen3-0.6B",
    gpu_type="H100",
    gpu_memory_gb=80,
    num_gpus=8,
    placement="trainer only",
    sharding="fsdp",
    recompute="full",
    micro_batch=1,
    max_total_len=4096,
)


def layout(**update: object) -> TrainLayout:
    case = SMALL.model_copy(update=update)
    given = given_tokens(case)
    assert given is not None
    return train_layout(case, given, 150_000)


def answer(**update: object) -> Fits:
    return footprint_answer(SMALL.model_copy(update=update))


def test_a_small_model_fits_and_a_huge_one_does_not() -> None:
    assert answer() is Fits.YES
    assert answer(model="Qwen3-235B-A22B") is Fits.NO


@pytest.mark.parametrize("missing", ["gpu_memory_gb", "num_gpus"])
def test_without_memory_or_devices_there_is_no_answer(missing: str) -> None:
    assert answer(**{missing: None}) is Fits.UNKNOWN


def test_a_model_without_a_known_shape_is_not_guessed_at() -> None:
    assert answer(model="7B (name not stated)") is Fits.UNKNOWN


@pytest.mark.parametrize("missing", ["micro_batch", "max_total_len", "recompute"])
def test_a_missing_setting_leaves_only_a_refusal(missing: str) -> None:
    assert answer(**{missing: None}) is Fits.UNKNOWN
    assert answer(**{missing: None, "model": "Qwen3-235B-A22B"}) is Fits.NO


def test_adapters_need_less_even_where_the_rank_is_not_stated() -> None:
    assert answer(model="Qwen3-30B-A3B", num_gpus=2) is Fits.NO
    assert answer(model="Qwen3-30B-A3B", num_gpus=2, is_lora=True) is not Fits.NO


def test_prime_rl_takes_the_logits_of_its_rl_trainer_in_chunks() -> None:
    assert answer(num_gpus=1, max_total_len=65536) is Fits.YES
    assert answer(num_gpus=1, max_total_len=65536, stage="sft") is not Fits.YES


def test_experts_are_not_divided_over_more_devices_than_there_are() -> None:
    whole = {"model": "Qwen3-235B-A22B", "sharding": "megatron", "is_lora": True, "train_tp": 4, "train_ep": 8}
    assert answer(**whole, num_gpus=8, gpu_memory_gb=40) is Fits.NO  # 28 GB of experts with four ways each, 112 without


def test_preference_optimization_keeps_a_second_model() -> None:
    pair = {"model": "Qwen3-4B", "sharding": "megatron", "num_gpus": 1}
    order = [Fits.YES, Fits.TOO_CLOSE, Fits.NO]
    assert order.index(answer(**pair, stage="dpo")) >= order.index(answer(**pair, stage="sft"))


def test_a_critic_beside_the_actor_leaves_only_a_refusal() -> None:
    assert answer(stage="ppo") is Fits.UNKNOWN


def test_more_tokens_never_make_it_fit() -> None:
    order = [Fits.YES, Fits.TOO_CLOSE, Fits.NO]
    places = [order.index(answer(num_gpus=1, max_total_len=tokens)) for tokens in (4096, 65536, 1_048_576)]
    assert places == sorted(places)
    assert places[-1] > places[0]


def test_a_layout_that_cannot_be_has_no_answer() -> None:
    assert answer(sharding="megatron", train_tp=16, num_gpus=8) is Fits.UNKNOWN


def test_every_case_of_the_table_can_be_asked() -> None:
    for case in memory_cases():
        assert footprint_answer(case) in Fits


def test_families_younger_than_fused_attention_never_keep_scores() -> None:
    assert layout(framework="trl", model="Llama-2-7B").may_keep_scores
    assert not layout(framework="trl", model="Qwen2.5-7B").may_keep_scores


def test_openrlhf_asks_for_log_probabilities_of_eight_sequences_unless_told() -> None:
    assert layout(framework="openrlhf").logprob_tokens == 8 * 4096
    assert layout(framework="openrlhf", logprob_micro_batch=2).logprob_tokens == 2 * 4096
    assert layout(framework="openrlhf", stage="sft").logprob_tokens is None


def test_supervised_training_on_transformers_trainer_has_the_models_own_loss() -> None:
    assert layout(framework="llamafactory", stage="sft").loss == "causal"
    assert layout(framework="llamafactory", stage="dpo").loss == "preference"
    assert layout(framework="openrlhf", stage="sft").loss == "fp32"
    assert layout(framework="llamafactory", stage="sft", has_fused_loss=True).loss == "fused"


def test_a_job_without_an_engine_gathers_what_zero_3_divided() -> None:
    own = {"framework": "trl", "placement": "colocated", "sharding": "zero3"}
    assert layout(**own).generates
    assert not layout(**own, gpu_memory_utilization=0.3).generates
    assert not layout(**{**own, "placement": "trainer only"}).generates


def test_sequences_are_packed_where_the_framework_takes_padding_out() -> None:
    assert layout(framework="verl").counted == "packed"
    assert layout(framework="trl").counted == "padded"
    assert layout(framework="verl", max_tokens_per_gpu=8192).counted == "tokens"
    both = layout(framework="verl", max_tokens_per_gpu=8192, logprob_micro_batch=4)
    assert both.logprob_counted == "packed"


def test_deepspeed_keeps_what_it_offloads_on_the_host() -> None:
    away = {"offload": "params+optimizer"}
    assert layout(framework="trl", sharding="zero3", **away).weights is Place.HOST
    assert layout(framework="trl", sharding="zero3", **away).optimizer is Place.HOST
    assert layout(framework="verl", sharding="fsdp", **away).weights is Place.IDLE_HOST
    waits = {"framework": "ms_swift", "sharding": "zero3", "placement": "colocated"}
    assert layout(**waits, **away).weights is Place.IDLE_HOST


def test_unsloths_loss_writes_its_gradient_over_the_logits() -> None:
    assert layout(framework="unsloth", stage="sft").loss == "in_place"
