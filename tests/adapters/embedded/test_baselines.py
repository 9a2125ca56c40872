from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.adapters.embedded.baselines import (
    best_practice_levers,
    default_levers,
    expert_levers,
    work_arguments,
)
from steptune.adapters.embedded.conflicts import conflicts
from steptune.core.errors import JobError
from steptune.core.framework import Lever
from steptune.core.job import AlgorithmSpec, Correction, CpuDevices, JobSpec, KnobsSpec
from steptune.core.model import HybridModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan import plan_batch

LONGEST_PROMPT_LEN = 24

Baseline = Callable[[JobSpec], tuple[Lever, ...]]
BASELINES: dict[str, Baseline] = {
    "default": lambda job: default_levers(job, longest_prompt_len=LONGEST_PROMPT_LEN),
    "best_practice": lambda job: best_practice_levers(job, longest_prompt_len=LONGEST_PROMPT_LEN),
    "expert": expert_levers,
}
every_baseline = pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES.keys())


def job_with(**algorithm: object) -> JobSpec:
    return JobSpec(name="t", algorithm=AlgorithmSpec.model_validate(algorithm))


def knobs_of(levers: tuple[Lever, ...]) -> EngineKnobs:
    return EngineKnobs.model_validate({lever.knob: lever.value for lever in levers})


@every_baseline
def test_a_baseline_sets_every_knob_of_the_engine_once_and_says_why(baseline: Baseline) -> None:
    levers = baseline(JobSpec(name="t"))
    assert [lever.knob for lever in levers] == list(EngineKnobs.model_fields)
    assert all(lever.why for lever in levers)


@every_baseline
@pytest.mark.parametrize("num_cores", [1, 2, 8])
def test_a_baseline_can_run_within_the_limits_on_all_cores(baseline: Baseline, num_cores: int) -> None:
    job = JobSpec(name="t", devices=CpuDevices(num_cores=num_cores))
    knobs = knobs_of(baseline(job))
    assert conflicts(job, knobs) == ()
    assert knobs.rollout_threads == knobs.train_threads == num_cores


@every_baseline
def test_several_updates_make_every_baseline_pay_for_old_log_probs(baseline: Baseline) -> None:
    job = job_with(num_updates=2)
    assert conflicts(job, knobs_of(baseline(job))) == ()
    assert knobs_of(baseline(job)).logprob_batch_tokens is not None


@every_baseline
def test_a_pinned_knob_keeps_the_owners_value_and_says_so(baseline: Baseline) -> None:
    job = JobSpec(name="t", knobs=KnobsSpec(pin={"layout": "sorted"}))
    pinned = [lever for lever in baseline(job) if lever.knob == "layout"]
    assert pinned == [Lever(knob="layout", value="sorted", why="pinned in the job")]


@every_baseline
def test_a_misspelt_pin_fails_with_the_nearest_name(baseline: Baseline) -> None:
    with pytest.raises(JobError, match="did you mean `layout`"):
        baseline(JobSpec(name="t", knobs=KnobsSpec(pin={"layuot": "sorted"})))


@every_baseline
def test_the_jobs_own_correction_is_in_every_baseline(baseline: Baseline) -> None:
    job = job_with(correction=Correction(kind="mis", cap=3.0))
    assert knobs_of(baseline(job)).correction == "mis"


def test_the_default_trains_8_rows_at_a_time_whatever_their_length() -> None:
    knobs = knobs_of(BASELINES["default"](JobSpec(name="t")))
    plan = plan_batch(
        [LONGEST_PROMPT_LEN, *[6] * 255],
        [3] * 256,
        layout=knobs.layout,
        token_budget=knobs.micro_batch_tokens,
        max_completion_len=40,
    )
    assert {len(micro.rows) for micro in plan.micro_batches} == {8}
    assert plan.padded_tokens == 256 * (LONGEST_PROMPT_LEN + 3)


def test_best_practice_pays_the_old_log_prob_pass_only_for_a_correction_the_job_declares() -> None:
    without, with_one = job_with(), job_with(correction=Correction(kind="mis", cap=3.0))
    assert knobs_of(BASELINES["best_practice"](without)).logprob_batch_tokens is None
    assert knobs_of(BASELINES["best_practice"](with_one)).logprob_batch_tokens == 32 * (LONGEST_PROMPT_LEN + 40)
    assert knobs_of(BASELINES["expert"](with_one)).logprob_batch_tokens is None


def test_the_example_work_is_32_accumulated_micro_batches_of_trls_own_8_rows() -> None:
    arguments = work_arguments(JobSpec(name="t"))
    assert arguments["gradient_accumulation_steps"] == 32
    assert "per_device_train_batch_size" not in arguments
    assert "steps_per_generation" not in arguments


@given(num_prompts=st.integers(1, 64), group_size=st.integers(2, 16), num_updates=st.integers(1, 4))
def test_the_work_arguments_add_up_to_the_jobs_rollouts(num_prompts: int, group_size: int, num_updates: int) -> None:
    algorithm = AlgorithmSpec(
        prompts_per_step=num_prompts * num_updates, group_size=group_size, num_updates=num_updates
    )
    arguments = work_arguments(JobSpec(name="t", algorithm=algorithm))
    rows = arguments.get("per_device_train_batch_size", 8)
    accumulation = arguments["gradient_accumulation_steps"]
    per_generation = arguments.get("steps_per_generation", accumulation)
    assert rows * accumulation * num_updates == algorithm.rollouts_per_step
    assert rows * per_generation == algorithm.rollouts_per_step
    assert rows <= 8


def test_the_expert_trains_a_shared_prompt_once_where_the_model_can() -> None:
    dense, hybrid = JobSpec(name="dense"), JobSpec(name="hybrid", model=HybridModel())
    assert knobs_of(expert_levers(dense)).layout == "shared_prefix"
    assert knobs_of(expert_levers(hybrid)).layout == "packed"
