import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import FSDP_8

from steptune.footprint.fit import capacity_of, judge
from steptune.footprint.layout import JobLayout, TrainLayout
from steptune.footprint.lengths import likely, likely_frac
from steptune.hardware.devices import named_device
from steptune.shapes.registry import named_shape

QWEN = named_shape("qwen2.5-7b")
H100 = capacity_of(named_device("H100"))


def trainer(sequences: int, **update: object) -> TrainLayout:
    return FSDP_8.model_copy(update={"micro_tokens": sequences * FSDP_8.longest, **update})


def test_a_budget_and_a_few_sequences_are_filled() -> None:
    assert likely_frac(16, "tokens") == 1
    for few in (1, 2, 3):
        assert likely_frac(few, "packed") == likely_frac(few, "padded") == 1
    assert likely(trainer(8)) == trainer(8)


def test_lengths_of_packed_sequences_average_out_and_padded_ones_take_the_longest() -> None:
    # 0.19 and twice 0.19, over the root of the sequences where they are packed; three at their limits at least
    assert likely_frac(16, "packed") == pytest.approx(0.285)
    assert likely_frac(8, "padded") == likely_frac(16, "padded") == pytest.approx(0.57)
    assert likely_frac(4, "packed") == likely_frac(4, "padded") == 0.75


@given(st.integers(1, 200), st.sampled_from(["tokens", "packed", "padded"]))
def test_another_sequence_never_brings_fewer_tokens(sequences: int, counted: str) -> None:
    less, more = (likely(trainer(n, counted=counted)).micro_tokens for n in (sequences, sequences + 1))
    assert less <= more <= (sequences + 1) * FSDP_8.longest


def test_passes_without_gradient_and_logits_shrink_with_their_own_batch() -> None:
    one = trainer(4, counted="packed", logprob_tokens=16 * 4_096, logits_tokens=4 * 1_000)
    found = likely(one)
    assert found.logprob_tokens == pytest.approx(0.285 * 16 * 4_096, abs=1)
    assert found.logits_tokens == 3_000
    assert likely(one.model_copy(update={"logprob_counted": "tokens"})).logprob_tokens == 16 * 4_096


def test_forty_sequences_at_their_limits_are_no_reason_to_refuse() -> None:
    forty = {"recompute": "full", "micro_tokens": 4_096, "logprob_tokens": 40 * 4_096}
    budget = FSDP_8.model_copy(update=forty)
    counted = budget.model_copy(update={"logprob_counted": "packed"})
    assert judge(QWEN, JobLayout(train=budget), H100).answer == "does not fit"
    found = judge(QWEN, JobLayout(train=counted), H100)
    assert found.answer == "too close to call"
    assert "at the longest lengths" in found.why


def test_what_runs_out_with_short_answers_too_is_refused_and_says_so() -> None:
    found = judge(QWEN, JobLayout(train=trainer(200, counted="padded")), H100)
    assert found.answer == "does not fit"
    assert "at lengths that are likely to come" in found.why
    alone = trainer(1, num_devices=1, counted="padded")
    assert "at the longest lengths" in judge(QWEN, JobLayout(train=alone), H100).why


def test_what_fits_is_judged_with_every_sequence_at_its_limit() -> None:
    answers = {
        counted: judge(QWEN, JobLayout(train=trainer(4, counted=counted)), H100) for counted in ("tokens", "packed")
    }
    assert answers["tokens"].phases == answers["packed"].phases
    assert answers["tokens"].answer == answers["packed"].answer == "fits"
