"""Who may choose vLLM: the job's owner, for a run; never the tuner."""

import pytest

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.session import stall_s_of as session_stall_s_of
from steptune.core.errors import JobError
from steptune.core.job import JobSpec, KnobsSpec
from steptune.engine.foreign.settings import stall_s_of as server_stall_s_of
from steptune.engine.knobs import EngineKnobs
from steptune.store.knob_checks import check_knobs

PINNED = JobSpec(name="a", knobs=KnobsSpec(pin={"rollout_engine": "vllm"}))


def test_only_a_pin_takes_the_rollout_away_from_this_engine() -> None:
    check_knobs(PINNED, knob_specs(PINNED))
    values = {spec.name: spec.values for spec in knob_specs(JobSpec(name="a"))}
    assert values["rollout_engine"] == ("embedded",)
    wrong = JobSpec(name="a", knobs=KnobsSpec(pin={"rollout_engine": "sglang"}))
    with pytest.raises(JobError, match="allowed: `embedded`, `vllm`"):
        check_knobs(wrong, knob_specs(wrong))


def test_the_tuner_refuses_what_it_cannot_forecast() -> None:
    knobs = EngineKnobs(rollout_engine="vllm", handover="file", compact_finished=True)
    assert conflicts(PINNED, knobs) == ("rollout_engine=vllm cannot be forecast: `steptune train` runs it",)


@pytest.mark.parametrize("num_parameters", [10**5, 4 * 10**6, 135 * 10**6, 10**9])
def test_a_server_that_hangs_is_told_apart_before_the_whole_session_counts_as_hung(num_parameters: int) -> None:
    assert server_stall_s_of(num_parameters) < session_stall_s_of(num_parameters)
