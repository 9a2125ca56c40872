"""The forecaster's counts are the engine's counts."""

import itertools
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.decode_plan import running_rows, stream_counts
from steptune.adapters.embedded.framework import EmbeddedFramework, longest_prompt
from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.render import render_job
from steptune.adapters.embedded.work import WorkCounter
from steptune.core.job import AlgorithmSpec, DenseModel, JobSpec, KnobsSpec, LimitsSpec
from steptune.core.model import HybridModel
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan import plan_batch
from steptune.engine.produce import prompt_batch, rollout_engine
from steptune.engine.stream.groups import Start
from steptune.envs.math.problems import train_problem
from steptune.store.job_file import load_job

JOB = JobSpec(name="job", limits=LimitsSpec(max_staleness=1, allow_corrections=True))
LENGTHS = SampledLengths(
    prompt=tuple(6 + i % 5 for i in range(512)),
    completion=tuple(3 + (7 * i) % 30 for i in range(512)),
    rollouts_per_step=256,
)


def test_the_knob_table_has_exactly_the_engines_knobs() -> None:
    assert {spec.name for spec in knob_specs(JOB)} == set(EngineKnobs.model_fields)


def test_every_value_of_the_knob_table_is_one_the_engine_accepts() -> None:
    for spec in knob_specs(JOB):
        for value in spec.values:
            EngineKnobs.model_validate({spec.name: value})


@pytest.mark.parametrize("asked", [{"allow": ("rollout_dtype",)}, {"pin": {"rollout_dtype": "int8"}}])
def test_int8_is_offered_only_where_the_owner_asks_for_it(asked: dict[str, object]) -> None:
    job = JOB.model_copy(update={"knobs": KnobsSpec.model_validate(asked)})
    offered = [next(s.values for s in knob_specs(j) if s.name == "rollout_dtype") for j in (JOB, job)]
    assert offered == [("fp32", "bf16"), ("fp32", "bf16", "int8")]


@pytest.mark.parametrize("kind", ["default", "best_practice", "expert"])
def test_every_baseline_sets_every_knob_once_and_can_run(kind: str, tmp_path: Path) -> None:
    framework = EmbeddedFramework(cache_dir=tmp_path)
    levers = framework.baseline(JOB, kind)  # type: ignore[arg-type]
    settings = {lever.knob: lever.value for lever in levers}
    assert len(levers) == len(settings) == len(EngineKnobs.model_fields)
    assert conflicts(JOB, EngineKnobs.model_validate(settings)) == ()


@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=40),
    concurrency=st.none() | st.integers(1, 50),
    continuous=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_decoding_produces_every_token_exactly_once(
    lengths: list[int], concurrency: int | None, continuous: bool
) -> None:
    counts, admissions = running_rows(lengths, concurrency=concurrency, continuous=continuous)
    row_iterations = sum(rows * count for rows, count in counts.items())
    assert row_iterations >= sum(lengths)
    if continuous:
        assert row_iterations == sum(lengths)
    assert max(counts) <= min(concurrency or len(lengths), len(lengths))
    assert 1 <= admissions <= len(lengths)


def test_waves_keep_finished_rows() -> None:
    # two waves of two: max(1, 5) = 5 iterations with 2 rows, then 3 with 2
    assert running_rows([1, 5, 3, 2], concurrency=2, continuous=False) == (Counter({2: 8}), 2)


def test_planned_padding_is_the_trainers_own() -> None:
    knobs = EngineKnobs(layout="padded", micro_batch_tokens=2048)
    planned = WorkCounter(job=JOB, lengths=LENGTHS).planned(knobs)
    plans = [
        plan_batch(
            LENGTHS.prompt[s : s + 256],
            LENGTHS.completion[s : s + 256],
            layout="padded",
            token_budget=2048,
            max_completion_len=JOB.algorithm.max_completion_len,
            num_updates=1,
            group_size=8,
        )
        for s in (0, 256)
    ]
    assert planned.padded_tokens == sum(plan.padded_tokens for plan in plans) / 2
    assert planned.active_tokens == (sum(LENGTHS.prompt) + sum(LENGTHS.completion)) / 2
    assert planned.padded_tokens > planned.active_tokens


def test_packing_plans_no_padding() -> None:
    planned = WorkCounter(job=JOB, lengths=LENGTHS).planned(EngineKnobs(layout="packed"))
    assert planned.padded_tokens == planned.active_tokens


def test_a_shared_prefix_plans_a_groups_prompt_once_and_its_keys_once_a_row() -> None:
    lengths = LENGTHS.model_copy(update={"prompt": tuple(6 + i // 8 % 5 for i in range(512))})
    counter = WorkCounter(job=JOB, lengths=lengths)
    packed, shared = (
        counter.planned(EngineKnobs(layout=layout, micro_batch_tokens=10_000)) for layout in ("packed", "shared_prefix")
    )
    assert shared.padded_tokens == (sum(lengths.prompt[::8]) + sum(lengths.completion)) / 2
    assert shared.active_tokens == shared.padded_tokens < packed.padded_tokens
    (item,) = {item.when["layout"] for item in shared.items if item.curve == "train"}
    assert item == "shared_prefix"
    # fewer activations, but as many keys and values as the packed rows have: 2 * kv width of the 3 layers, 4 bytes
    saved_positions = (sum(lengths.prompt) - sum(lengths.prompt[::8])) / 2
    assert shared.memory_bytes < packed.memory_bytes
    assert packed.memory_bytes - shared.memory_bytes < saved_positions * 4 * 3 * (16 * 192 + 3 * 384)


def test_a_hybrid_cannot_share_prompts() -> None:
    job = JOB.model_copy(update={"model": HybridModel()})
    assert any("cannot fork" in text for text in conflicts(job, EngineKnobs(layout="shared_prefix")))
    assert not any("cannot fork" in text for text in conflicts(JOB, EngineKnobs(layout="shared_prefix")))


def test_shared_prefill_plans_a_groups_prompt_once() -> None:
    counter = WorkCounter(job=JOB, lengths=LENGTHS)
    tokens = {
        shared: sum(
            i.x * i.count for i in counter.planned(EngineKnobs(share_prefill=shared)).items if i.curve == "prefill"
        )
        for shared in (False, True)
    }
    assert tokens[False] == 8 * tokens[True]


def test_only_the_schedule_makes_lag() -> None:
    counter = WorkCounter(job=JOB, lengths=LENGTHS)
    assert counter.planned(EngineKnobs()).lag == 0
    assert counter.planned(EngineKnobs(schedule="one_step_off", correction="tis")).lag == 1


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"handover": "alias", "rollout_dtype": "bf16"}, "number format"),
        (
            {
                "schedule": "one_step_off",
                "correction": "tis",
                "handover": "alias",
                "rollout_threads": 1,
                "train_threads": 1,
            },
            "one process",
        ),
        ({"schedule": "one_step_off", "correction": "tis"}, "more threads"),
        ({"schedule": "one_step_off", "rollout_threads": 1, "train_threads": 1}, "importance-sampling"),
        ({"correction": "tis"}, "change the algorithm"),
        ({"rollout_threads": 3}, "more threads"),
    ],
)
def test_impossible_settings_say_why(knobs: dict[str, object], reason: str) -> None:
    assert any(reason in text for text in conflicts(JOB, EngineKnobs.model_validate(knobs)))


def test_limits_forbid_staleness_and_corrections() -> None:
    off = EngineKnobs(schedule="one_step_off", correction="tis", rollout_threads=1, train_threads=1)
    assert conflicts(JOB, off) == ()
    assert any("max_staleness" in text for text in conflicts(JobSpec(name="strict"), off))
    strict = JobSpec(name="strict", limits=LimitsSpec(max_staleness=1))
    assert any("allow_corrections" in text for text in conflicts(strict, off))


def test_several_updates_need_the_log_prob_pass() -> None:
    job = JobSpec(name="job", algorithm=AlgorithmSpec(num_updates=2))
    assert any("old-log-prob" in text for text in conflicts(job, EngineKnobs()))


def test_a_rendered_job_reads_back_with_its_pins(tmp_path: Path) -> None:
    settings = EngineKnobs(layout="packed", share_prefill=True).model_dump()
    path = tmp_path / "tuned.toml"
    path.write_text(render_job(JOB, settings))
    again = load_job(path)
    assert again.knobs == KnobsSpec(pin=settings)
    assert again.model_copy(update={"knobs": JOB.knobs}) == JOB


def test_the_longest_prompt_is_a_real_one() -> None:
    assert 4 <= longest_prompt(JOB) <= 60


@pytest.mark.parametrize("concurrency", [None, 16, 5])
@pytest.mark.parametrize("continuous", [False, True])
def test_planned_decoding_is_the_engines_own(concurrency: int | None, continuous: bool) -> None:
    job = JobSpec(name="small", model=DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=32))
    knobs = EngineKnobs(rollout_concurrency=concurrency, compact_finished=continuous)
    lengths = [1 + (7 * i) % 12 for i in range(32)]
    texts = [train_problem(1, i, (1,)).text for i in range(32)]
    _, trace = rollout_engine(job, knobs).generate(
        prompt_batch(texts, range(32), group_size=1),
        max_completion_len=12,
        temperature=1.0,
        seed=1,
        forced_lengths_B=torch.tensor(lengths),
    )
    counts, _ = running_rows(lengths, concurrency=concurrency, continuous=continuous)
    assert Counter(trace.running_I) == counts


@pytest.mark.parametrize("share_prefill", [False, True])
@pytest.mark.parametrize("num_slots", [16, 10, 3, 1])
def test_a_planned_stream_is_the_engines_own(num_slots: int, share_prefill: bool) -> None:
    model = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=32)
    job = JobSpec(name="small", model=model, algorithm=AlgorithmSpec(group_size=4, prompts_per_step=4))
    knobs = EngineKnobs(schedule="async", compact_finished=True, share_prefill=share_prefill)
    completions = [1 + (7 * i) % 12 for i in range(32)]
    texts = [train_problem(1, number, (1, 2)).text for number in range(8)]
    prompts = [prompt_batch([text], [number], group_size=4) for number, text in enumerate(texts)]
    engine = rollout_engine(job, knobs)
    stream = engine.stream(
        num_slots=num_slots,
        num_rows=32,
        group_size=4,
        max_completion_len=12,
        temperature=1.0,
        seed=1,
        is_forced=True,
    )
    left = [
        Start(
            number=number,
            prompts=group,
            limit_g=torch.tensor(completions[4 * number : 4 * number + 4]),
        )
        for number, group in enumerate(prompts)
    ]

    def refill() -> None:
        while left and stream.has_room:
            stream.begin(left.pop(0))

    while stream.run(refill, lambda: False):
        pass
    trace = stream.take_trace()
    counts = stream_counts(
        torch.cat([group.lengths_B for group in prompts]).tolist(),
        completions,
        group_size=4,
        num_slots=num_slots,
        share_prefill=share_prefill,
    )
    assert Counter(trace.running_I) == counts.decode
    assert trace.prefill_tokens == sum(positions * count for positions, count in counts.prefill.items())


def test_a_stream_decodes_the_same_rows_in_fewer_iterations_the_longer_it_runs_without_a_break() -> None:
    job = JOB.model_copy(update={"limits": LimitsSpec(max_staleness=3, allow_corrections=True)})
    lengths = SampledLengths(
        prompt=(6,) * 512, completion=tuple(3 + (7 * i) % 30 for i in range(512)), rollouts_per_step=64
    )
    counter = WorkCounter(job=job, lengths=lengths)
    ahead = {"correction": "tis", "compact_finished": True, "rollout_threads": 1, "train_threads": 1}

    def decoded(**settings: object) -> tuple[float, float]:
        planned = counter.planned(EngineKnobs.model_validate({**ahead, **settings}))
        items = [item for item in planned.items if item.curve == "decode"]
        return sum(item.count for item in items), sum(item.count * item.x for item in items)

    off = decoded(schedule="one_step_off")
    streams = [decoded(schedule="async", max_lag=lag) for lag in (0, 1, 3)]
    in_flight = decoded(schedule="async", max_lag=1, inflight_update=True)
    rows = {round(rows, 6) for _, rows in (off, *streams, in_flight)}
    assert rows == {round(sum(lengths.completion) / 8, 6)}  # every token once, whatever the order
    iterations = [count for count, _ in (off, *streams, in_flight)]
    assert iterations[0] == iterations[1]  # no age: every step's slots run empty
    assert all(later < earlier for earlier, later in itertools.pairwise(iterations[1:]))
