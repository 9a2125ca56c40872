"""What the memory forecast counts beside one process's weights, cache and micro-batch."""

import pytest

from steptune.adapters.embedded.memory import FIXED_BYTES, RANK_PROCESS_BYTES, WORKER_PROCESS_BYTES, memory_bytes
from steptune.adapters.embedded.shape import shape_of_model
from steptune.core.job import AlgorithmSpec, DenseModel, JobSpec, MathWorkload
from steptune.engine.evaluation_rows import MAX_BYTES
from steptune.engine.knobs import EngineKnobs
from steptune.shapes.count import parameters

MODEL = DenseModel(num_layers=2, d_model=64, num_heads=4, num_kv_heads=2, d_ff=128, padded_vocab=1000)
WHOLE = 4 * parameters(shape_of_model(MODEL)).total
LONGEST = 60


def planned(num_validation: int = 1, positions: int = 500, **settings: object) -> float:
    algorithm = AlgorithmSpec(prompts_per_step=2, group_size=4, max_completion_len=40)
    workload = MathWorkload(num_validation=num_validation)
    job = JobSpec(name="memory", model=MODEL, algorithm=algorithm, workload=workload)
    knobs = EngineKnobs.model_validate(settings)
    return memory_bytes(job, knobs, micro_positions=positions, completion_frac=0.8, extra_keys=0, longest=LONGEST)


@pytest.mark.parametrize("schedule", [{"schedule": "one_step_off"}, {"schedule": "async", "max_lag": 1}])
def test_an_overlapped_run_has_a_worker_two_slots_of_weights_and_both_sides_at_once(
    schedule: dict[str, object],
) -> None:
    # the worker decodes 8 rows while the trainer trains: 3 rows of 1,000 logits each
    decode = 4 * 3 * 8 * 1000
    assert planned(**schedule) - planned() == pytest.approx(WORKER_PROCESS_BYTES + 3 * WHOLE + decode)


def test_through_a_file_there_are_no_slots() -> None:
    shared, file = (planned(schedule="one_step_off", handover=how) for how in ("copy", "file"))
    assert shared - file == pytest.approx(2 * WHOLE)
    assert planned(handover="copy") == planned(handover="file")  # in one process there never were any


def test_a_second_rank_is_a_process_with_gradients_here_and_in_shared_memory() -> None:
    # no micro-batch to speak of
    two, one = planned(positions=1, train_ranks=2), planned(positions=1)
    assert two - one == pytest.approx(RANK_PROCESS_BYTES + 2 * WHOLE, rel=1e-3)


def test_a_further_replica_is_a_process_that_reads_and_holds_weights_and_decodes_its_rows() -> None:
    # 4 of the 8 rows decode in a process of their own, whose peak stands beside the trainer's; slots, read copy, model
    decode = 4 * 3 * 4 * 1000
    assert planned(rollout_replicas=2) - planned() == pytest.approx(WORKER_PROCESS_BYTES + 4 * WHOLE + decode)
    # a bf16 replica's model is half as large; beside an overlapped rollout the slots are there already
    half, one = (planned(rollout_replicas=num, schedule="one_step_off", rollout_dtype="bf16") for num in (2, 1))
    assert half - one == pytest.approx(WORKER_PROCESS_BYTES + 1.5 * WHOLE)


def test_an_evaluation_counts_where_it_is_the_largest_moment_and_never_beyond_its_bound() -> None:
    assert planned(num_validation=2) == planned(num_validation=1)  # training is larger
    few, many, most = (planned(num_validation=number, positions=1) for number in (200, 400, 10**9))
    assert few < many < most
    assert most <= planned(positions=1) + MAX_BYTES


def test_gradients_are_there_while_training_only() -> None:
    # 512 held-out rows and 8 of the rollout's cache; no gradient stands beside them, weights and Adam's moments do
    cache = 2 * 2 * MODEL.kv_width * LONGEST * 4
    evaluated = 512 * (cache + 3 * 1000 * 4)
    assert planned(10**6, positions=1, handover="alias") == pytest.approx(
        FIXED_BYTES + 3 * WHOLE + 8 * cache + evaluated
    )
    trained = planned(positions=1, handover="alias") - (FIXED_BYTES + 4 * WHOLE + 8 * cache)
    assert 0 < trained < 1e5
