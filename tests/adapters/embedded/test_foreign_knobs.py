"""Who may choose vLLM: the job's owner, for a run; never the tuner."""

import pytest

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.knobs import knob_specs
from steptune.core.errors import JobError
from steptune.core.job import JobSpec, KnobsSpec
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
