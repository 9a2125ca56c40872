"""Any combination of knobs runs, or is refused in the house sentence: what, got, allowed, hint."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_cases import small_job, small_loop

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.knobs import knob_specs
from steptune.core.errors import JobError, StepTuneError
from steptune.core.job import JobSpec, KnobsSpec
from steptune.core.model import HybridModel
from steptune.engine.knob_checks import check_knobs
from steptune.engine.knobs import EngineKnobs
from steptune.engine.supply.state import LoopSpec, check_schedule
from steptune.store.knob_checks import check_knobs as check_pins

sys.path.insert(0, str(Path(__file__).parent / "ahead"))
from inline_wire import inline_source

SENTENCE = re.compile(r".+, got .+; allowed: .+; hint: .+", re.DOTALL)

VALUES: dict[str, tuple[Any, ...]] = {
    "rollout_engine": ("embedded", "embedded", "vllm"),
    "rollout_concurrency": (None, 1, 5),
    "admit_order": ("arrival", "longest_first"),
    "share_prefill": (False, True),
    "reuse_prefixes": (False, True),
    "compact_finished": (False, True),
    "rollout_dtype": ("fp32", "bf16", "int8"),
    "rollout_threads": (1, 2),
    "rollout_replicas": (1, 1, 2, 5),
    "rollout_routing": ("round_robin", "round_robin", "least_tokens"),
    "train_threads": (1, 2),
    "train_ranks": (1, 2),
    "train_dtype": ("fp32", "bf16"),
    "layout": ("padded", "sorted", "packed", "shared_prefix"),
    "micro_batch_tokens": (1, 64, 4096),
    "moe_dispatch": ("where", "sort", "grouped"),
    "router_replay": (False, True),
    "compile": (False, True),
    "recompute": (False, True),
    "offload": (False, True),
    "head_tile_tokens": (None, 3),
    "logprob_batch_tokens": (None, 50),
    "rollout_cores": (None, None, 0.5, 1.5, 2.0),
    "schedule": ("sync", "one_step_off", "async"),
    "max_lag": (None, 0, 1, 3),
    "inflight_update": (False, True),
    "partial_rollout": (None, None, 1.5, 2.0),
    "handover": ("alias", "copy", "file"),
    "correction": ("none", "tis"),
}
"""Valid values of every knob by itself."""

COMBOS = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


def job_of(num_updates: int = 1, **fields: Any) -> JobSpec:
    job = small_job(overlong_buffer_len=11, num_updates=num_updates)
    limits = job.limits.model_copy(update={"max_staleness": 1, "allow_corrections": True})
    return job.model_copy(update={"limits": limits, **fields})


JOBS = (job_of(), job_of(num_updates=2), job_of(model=HybridModel()))


def refusal(job: JobSpec, knobs: EngineKnobs) -> str | None:
    """Return what the engine says against ``knobs`` before it starts anything."""
    spec = LoopSpec(job=job, knobs=knobs, seed=1, forced=None, capture_batches=0, folder=Path("unused"))
    try:
        check_schedule(spec)
        check_knobs(knobs, job.algorithm, job.model)
    except JobError as error:
        return str(error)
    return None


def test_every_knob_is_sampled() -> None:
    assert set(VALUES) == set(EngineKnobs.model_fields)


@settings(max_examples=300)
@given(COMBOS, st.sampled_from(JOBS))
def test_what_is_refused_is_refused_in_the_house_sentence_and_never_tried_by_the_tuner(
    combo: dict[str, Any], job: JobSpec
) -> None:
    knobs = EngineKnobs.model_validate(combo)
    said = refusal(job, knobs)
    if said is not None:
        assert SENTENCE.fullmatch(said)
        assert conflicts(job, knobs), f"the tuner would start a run that the engine refuses: {said}"


IN_PROCESS = {
    "rollout_engine": "embedded",  # the others start processes, or hold this one to a quota
    "train_ranks": 1,
    "rollout_replicas": 1,
    "rollout_routing": "round_robin",
    "rollout_cores": None,
    "compile": False,  # tracing takes seconds: tests/engine/compiled
}


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COMBOS.map(lambda combo: {**combo, **IN_PROCESS}), st.sampled_from(["sync", "async"]))
def test_what_is_not_refused_takes_a_step(tmp_path: Path, combo: dict[str, Any], schedule: str) -> None:
    # likelier values for what a stream needs, so that more than the plainest combinations get through
    helped = {**combo, "schedule": schedule, "max_lag": 1, "compact_finished": True, "admit_order": "arrival"}
    helped |= {"reuse_prefixes": False, "recompute": combo["recompute"] or combo["offload"]}
    source = inline_source if schedule == "async" else None
    loop, said = None, ""
    try:
        loop = small_loop(job_of(), tmp_path, make_source=source, **helped)
    except StepTuneError as error:
        said = str(error)
    if loop is None:
        assert SENTENCE.fullmatch(said)
        return
    step = loop.step()
    loop.close()
    assert step.num_rollouts == 16


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from([*VALUES, "layuot"]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-1, 4),
            st.floats(),
            st.sampled_from(["packed", "fp8", "sync", "copy", "async"]),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_pin_is_a_value_that_the_engine_takes_or_a_mistake_said_in_the_house_sentence(pins: dict[str, Any]) -> None:
    job = job_of(knobs=KnobsSpec(pin=pins))
    mistakes = ""
    try:
        check_pins(job, knob_specs(job))
    except JobError as error:
        mistakes = str(error)
    assert all(SENTENCE.fullmatch(line) for line in mistakes.splitlines())
    if not mistakes:
        EngineKnobs.model_validate(pins)


@pytest.mark.parametrize("more", [{"schedule": "one_step_off"}, {"rollout_dtype": "bf16"}])
def test_an_alias_of_what_the_rollout_cannot_read_is_refused_before_a_process_starts(more: dict[str, Any]) -> None:
    said = refusal(job_of(), EngineKnobs.model_validate({"handover": "alias", **more}))
    assert said is not None
    assert said.endswith("allowed: schedule `sync` and rollout_dtype `fp32`; hint: use handover `copy`")
