"""What two trainer ranks ask of the machine, and that nobody prices it with one rank's curves."""

import pytest

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.memory import RANK_PROCESS_BYTES
from steptune.adapters.embedded.work import WorkCounter
from steptune.core.job import JobSpec, KnobsSpec, LimitsSpec
from steptune.core.profile import CostCurve, CurvePoint, SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan import plan_batch
from steptune.forecast.curve import CostBook, ForecastError
from steptune.forecast.side import side_costs

JOB = JobSpec(name="job", limits=LimitsSpec(max_staleness=1, allow_corrections=True))
LENGTHS = SampledLengths(
    prompt=tuple(6 + i // 8 % 5 for i in range(256)),
    completion=tuple(3 + (7 * i) % 30 for i in range(256)),
    rollouts_per_step=256,
)
TWO = EngineKnobs(train_ranks=2, train_threads=1, layout="packed", micro_batch_tokens=1024)


def curve(name: str) -> CostCurve:
    points = (CurvePoint(x=1, seconds=0.001), CurvePoint(x=1000, seconds=0.1))
    return CostCurve(name=name, when={}, unit="tokens", points=points)


ONE_RANK = tuple(curve(name) for name in ("decode", "prefill", "train", "logprob", "optimizer", "handover", "load"))
MEASURED = tuple(curve(f"{name}_ranked") for name in ("train", "logprob", "optimizer"))


def test_the_items_are_the_slower_ranks_and_the_positions_are_both_ranks() -> None:
    planned = WorkCounter(job=JOB, lengths=LENGTHS).planned(TWO)
    plans = [
        plan_batch(
            LENGTHS.prompt,
            LENGTHS.completion,
            layout="packed",
            token_budget=1024,
            max_completion_len=JOB.algorithm.max_completion_len,
            group_size=8,
            rank=rank,
            num_ranks=2,
        )
        for rank in (0, 1)
    ]
    priced = sum(item.x * item.count for item in planned.items if item.curve == "train_ranked")
    assert priced == max(plan.padded_tokens for plan in plans)
    assert planned.padded_tokens == sum(plan.padded_tokens for plan in plans) == planned.active_tokens
    assert planned.active_tokens == sum(LENGTHS.prompt) + sum(LENGTHS.completion)


@pytest.mark.parametrize("layout", ["padded", "sorted", "packed", "shared_prefix"])
def test_two_ranks_share_the_positions_of_one(layout: str) -> None:
    counter = WorkCounter(job=JOB, lengths=LENGTHS)
    knobs = TWO.model_copy(update={"layout": layout, "micro_batch_tokens": 2**20})
    one, two = counter.planned(knobs.model_copy(update={"train_ranks": 1})), counter.planned(knobs)
    of_one = sum(item.x * item.count for item in one.items if item.curve == "train")
    of_slower = sum(item.x * item.count for item in two.items if item.curve == "train_ranked")
    assert of_one / 2 <= of_slower < 0.56 * of_one
    assert two.num_devices == 2 * one.trainer_cores
    # each rank holds its own micro-batch, half as large, and the second one is a process
    assert two.memory_bytes - one.memory_bytes == pytest.approx(RANK_PROCESS_BYTES, rel=0.2)


@pytest.mark.parametrize("algorithm", [{}, {"kl_coef": 0.1}, {"num_updates": 2}])
def test_no_curve_of_one_rank_prices_two(algorithm: dict[str, object]) -> None:
    job = JOB.model_copy(update={"algorithm": JOB.algorithm.model_copy(update=algorithm)})
    knobs = TWO.model_copy(update={"logprob_batch_tokens": 2048 if "num_updates" in algorithm else None})
    planned = WorkCounter(job=job, lengths=LENGTHS).planned(knobs)
    trainers = {item.curve for item in planned.items if item.phase in ("train", "old_logprob", "ref_logprob")}
    assert all(name.endswith("_ranked") for name in trainers)
    assert ("logprob_ranked" in trainers) == bool(algorithm)
    with pytest.raises(ForecastError, match="no cost curve `train_ranked` was measured"):
        side_costs(planned, CostBook(curves=ONE_RANK))
    assert side_costs(planned, CostBook(curves=ONE_RANK + MEASURED)).seconds


def test_the_knob_moves_only_where_it_is_asked_for() -> None:
    def values(job: JobSpec) -> tuple[object, ...]:
        return next(spec.values for spec in knob_specs(job) if spec.name == "train_ranks")

    assert values(JOB) == (1,)
    assert values(JOB.model_copy(update={"knobs": KnobsSpec(allow=("train_ranks",))})) == (1, 2)
    (effect,) = {spec.effect for spec in knob_specs(JOB) if spec.name == "train_ranks"}
    assert effect == "none"


def test_ranks_count_as_cores_and_take_no_quota() -> None:
    assert conflicts(JOB, TWO) == ()
    assert any("more threads" in text for text in conflicts(JOB, TWO.model_copy(update={"train_threads": 2})))
    overlapped = TWO.model_copy(update={"schedule": "one_step_off", "rollout_threads": 1, "correction": "tis"})
    assert any("more threads" in text for text in conflicts(JOB, overlapped))
    quota = overlapped.model_copy(update={"rollout_cores": 1.0})
    assert any("rollout_cores needs one trainer rank" in text for text in conflicts(JOB, quota))
