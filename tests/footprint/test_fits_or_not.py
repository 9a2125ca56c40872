import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import ENGINE, FSDP_8, JOB, MEGATRON_64

from steptune.core.estimate import Estimate, Source
from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.engine import pool, sequence_bytes
from steptune.footprint.fit import SAFE_FRAC, capacity_of, fullest_bytes, judge, smallest_change
from steptune.footprint.layout import JobLayout, Place
from steptune.footprint.phases import PhaseName, phase_bytes
from steptune.hardware.devices import named_device
from steptune.shapes.cost import kv_bytes_per_token
from steptune.shapes.count import parameters
from steptune.shapes.registry import named_shape

QWEN = named_shape("qwen2.5-7b")
H100 = capacity_of(named_device("H100"))


def test_a_usual_job_fits_and_a_large_model_on_one_card_does_not() -> None:
    assert judge(QWEN, JOB, H100).answer == "fits"
    alone = JobLayout(train=FSDP_8.model_copy(update={"num_devices": 1}), rollout=None)
    # 7.6e9 parameters x 16 bytes = 113 GiB
    found = judge(QWEN, alone, H100)
    assert found.answer == "does not fit"
    assert found.tightest is PhaseName.TRAIN


def test_between_the_bounds_it_is_too_close_to_call() -> None:
    size = next(one for one in phase_bytes(QWEN, JOB, H100.value) if one.phase is PhaseName.TRAIN).total
    engineless = JobLayout(train=FSDP_8)
    small = H100.model_copy(update={"value": size.value})
    assert judge(QWEN, JOB, small).answer == "too close to call"
    assert judge(QWEN, engineless, small).answer in ("too close to call", "fits")


def test_uneven_ranks_and_wrong_terms_are_independent() -> None:
    size = Estimate(value=100.0, low=90.0, high=112.0, unit="bytes", source=Source.FORECAST)
    assert fullest_bytes(size, 0.05) == pytest.approx(113)  # 12 and 5 add up to 13
    assert fullest_bytes(size, 0.0) == 112


def test_one_device_has_no_fuller_rank() -> None:
    one = JobLayout(train=FSDP_8.model_copy(update={"num_devices": 1, "micro_tokens": 512}))
    needs = max(phase.total.high or 0.0 for phase in phase_bytes(QWEN, one, H100.value))
    exactly = H100.model_copy(update={"value": needs / SAFE_FRAC})
    assert judge(QWEN, one, exactly).answer == "fits"


def test_a_job_that_fits_leaves_a_twentieth_of_the_device_free() -> None:
    one = JobLayout(train=FSDP_8.model_copy(update={"num_devices": 1, "micro_tokens": 512}))
    needs = max(phase.total.high or 0.0 for phase in phase_bytes(QWEN, one, H100.value))
    for part, answer in ((0.949, "fits"), (0.951, "too close to call")):
        assert judge(QWEN, one, H100.model_copy(update={"value": needs / part})).answer == answer


def test_an_engine_without_room_for_one_sequence_is_refused() -> None:
    job = JOB.model_copy(update={"rollout": ENGINE.model_copy(update={"share": 0.1, "tensor": 1})})
    found = judge(QWEN, job, H100)
    assert found.answer == "does not fit"
    assert "one longest sequence" in found.why
    advice = smallest_change(QWEN, job, H100)
    assert advice is None or "share" in " ".join(advice.changes)


def test_the_advice_makes_it_fit_and_names_the_cheapest_change() -> None:
    l40s = capacity_of(named_device("L40S"))
    advice = smallest_change(QWEN, JOB, l40s)
    assert advice is not None
    assert advice.fit.answer == "fits"
    assert advice.changes == ("a fused or chunked loss: logits of 1,024 tokens at a time",)
    assert smallest_change(QWEN, JOB, H100) is None


def test_nothing_helps_where_nothing_can() -> None:
    huge = named_shape("kimi-k2")
    assert smallest_change(huge, JOB, H100) is None


def test_states_that_wait_on_the_host_are_there_in_the_update_alone() -> None:
    waits = JOB.model_copy(update={"train": FSDP_8.model_copy(update={"optimizer": Place.IDLE_HOST})})
    gone = JOB.model_copy(update={"train": FSDP_8.model_copy(update={"optimizer": Place.HOST})})
    of = {
        name: {p.phase: p.total.value for p in phase_bytes(QWEN, job, H100.value)}
        for name, job in (("here", JOB), ("waits", waits), ("gone", gone))
    }
    assert of["waits"][PhaseName.TRAIN] == of["here"][PhaseName.TRAIN] > of["gone"][PhaseName.TRAIN]
    assert of["waits"][PhaseName.ROLLOUT] == of["gone"][PhaseName.ROLLOUT] < of["here"][PhaseName.ROLLOUT]


def test_an_engine_that_does_not_sleep_keeps_its_share_while_the_trainer_works() -> None:
    awake = JOB.model_copy(update={"rollout": ENGINE.model_copy(update={"sleeps": False})})
    train = {
        job: p
        for job in ("awake", "asleep")
        for p in phase_bytes(QWEN, awake if job == "awake" else JOB, H100.value)
        if p.phase is PhaseName.TRAIN
    }
    assert train["awake"].total.value - train["asleep"].total.value > 0.5 * H100.value


def test_devices_apart_carry_no_other_side() -> None:
    apart = phase_bytes(QWEN, JOB.model_copy(update={"is_colocated": False}), H100.value)
    names = {phase.phase: {term.name for term in phase.terms} for phase in apart}
    # it receives weights on top of its share
    assert names[PhaseName.ROLLOUT] == {"engine's share", "CUDA graphs", "tensors in flight", "receiver's context"}
    assert "engine's context" not in names[PhaseName.TRAIN]


def test_divided_weights_are_gathered_whole_to_generate_without_an_engine() -> None:
    def gathered(job: JobLayout) -> list[float]:
        phases = phase_bytes(QWEN, job, H100.value)
        return [t.mid for p in phases for t in p.terms if t.name == "weights gathered to generate"]

    alone = JobLayout(train=FSDP_8.model_copy(update={"generates": True}))
    count = parameters(QWEN)
    assert gathered(alone) == [pytest.approx(2 * (count.embedding + count.head + count.backbone))]
    assert gathered(JobLayout(train=FSDP_8)) == []
    whole = FSDP_8.model_copy(update={"generates": True, "sharding": "none"})
    assert gathered(JobLayout(train=whole)) == []
    assert gathered(JOB.model_copy(update={"train": alone.train})) == []  # an engine generates


def test_every_term_says_where_it_comes_from() -> None:
    for job in (JOB, JobLayout(train=MEGATRON_64, rollout=ENGINE)):
        for phase in phase_bytes(QWEN, job, H100.value):
            assert all(term.source and term.low <= term.mid <= term.high for term in phase.terms)


def test_cache_heads_are_divided_while_there_are_enough() -> None:
    # 4 key/value heads: 8 devices hold one each, twice
    four, eight = (ENGINE.model_copy(update={"tensor": n}) for n in (4, 8))
    assert sequence_bytes(QWEN, four) == sequence_bytes(QWEN, eight) == kv_bytes_per_token(QWEN) * 4_096 / 4
    latent = named_shape("deepseek-v3")
    assert sequence_bytes(latent, eight) == kv_bytes_per_token(latent) * 4_096


def test_states_of_recurrent_layers_bound_the_sequences() -> None:
    shape = named_shape("qwen3.5-27b")
    short = ENGINE.model_copy(update={"longest": 1, "tensor": 1})
    left = pool(shape, short, 70 * BYTES_PER_GIB)
    # 147 MiB of state and 64 KiB of cache a sequence
    assert left.bytes_per_sequence == pytest.approx(147 * 2**20, rel=0.01)
    assert 0 < left.sequences < 140


@given(st.integers(0, 40_000), st.integers(0, 40_000), st.sampled_from(["none", "full"]))
def test_a_larger_micro_batch_never_fits_better(one: int, two: int, recompute: str) -> None:
    few, many = sorted((one, two))
    order = ["fits", "too close to call", "does not fit"]
    answers = []
    for tokens in (few, many):
        train = FSDP_8.model_copy(update={"micro_tokens": tokens, "recompute": recompute})
        answers.append(order.index(judge(QWEN, JobLayout(train=train, rollout=ENGINE), H100).answer))
    assert answers[0] <= answers[1]


def test_no_tokens_need_no_activations() -> None:
    train = FSDP_8.model_copy(update={"micro_tokens": 0, "longest": 0})
    names = {term.name for phase in phase_bytes(QWEN, JobLayout(train=train), H100.value) for term in phase.terms}
    assert not names & {"logits", "layer inputs", "one layer at work", "fragmentation"}


def test_reported_memory_is_less_than_the_marketed_one() -> None:
    assert H100.value == 79.1 * BYTES_PER_GIB
    h200 = capacity_of(named_device("H200"))
    assert 0.97 * 141 * BYTES_PER_GIB < h200.value < 141 * BYTES_PER_GIB
    assert "marketed" in h200.note
