"""The server has room for the job's own prompts, in blocks that its groups can share."""

import logging
from pathlib import Path

import pytest
from foreign_cases import SPEC
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.job import AlgorithmSpec, JobSpec, MathWorkload
from steptune.engine.foreign import for_job
from steptune.engine.foreign.for_job import settings_for
from steptune.engine.foreign.room import block_size_for, prompt_room, sampled_prompt_lengths, shared_tokens
from steptune.engine.foreign.settings import BLOCK_SIZES, VllmSettings
from steptune.engine.knobs import EngineKnobs
from steptune.engine.produce import SEED_STRIDE
from steptune.envs.math.problems import train_problem
from steptune.envs.math.tokenizer import MathTokenizer
from steptune.envs.vocabulary import Vocabulary, vocabulary_of

JOB = JobSpec(
    name="room",
    model=SPEC,
    workload=MathWorkload(levels=(1, 2, 3)),
    algorithm=AlgorithmSpec(prompts_per_step=2, group_size=2, max_completion_len=8),
)
SHARED = EngineKnobs(rollout_engine="vllm", handover="file", compact_finished=True, share_prefill=True)


@pytest.fixture
def wordy(monkeypatch: pytest.MonkeyPatch) -> Vocabulary:
    """Put every problem into a long prompt, as a pretrained model's is."""
    found = Vocabulary(tokenizer=MathTokenizer(), prompt="3+8" * 100 + "{problem}", context_len=None)
    for module in ("foreign.for_job", "foreign.room"):
        monkeypatch.setattr(f"steptune.engine.{module}.vocabulary_of", lambda _job: found)
    return found


def test_the_room_is_the_jobs_own_prompts_and_what_they_differ_by() -> None:
    lengths = sampled_prompt_lengths(JOB, seed=1)
    room = settings_for(JOB, SHARED, 1, Path("p")).max_model_len - JOB.algorithm.max_completion_len
    assert room == prompt_room(lengths) == 2 * max(lengths) - min(lengths)
    # problems far behind those looked at fit, of this run's stream and of another's
    for seed in (1, 2):
        problems = (train_problem(JOB.workload.seed, seed * SEED_STRIDE + 900 + i, (1, 2, 3)) for i in range(2000))
        assert max(len(vocabulary_of(JOB).encode_prompt(problem.text)) for problem in problems) <= room


def test_a_prompt_of_more_than_256_tokens_has_room_and_shares_its_blocks(wordy: Vocabulary) -> None:
    settings = settings_for(JOB, SHARED, 1, Path("p"))
    lengths = sampled_prompt_lengths(JOB, seed=1)
    assert min(lengths) > 256
    assert settings.max_model_len >= max(lengths) + 8
    assert shared_tokens(lengths, settings.block_size) > 0.8 * sum(lengths)


def test_the_models_context_bounds_the_room(wordy: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    short = Vocabulary(tokenizer=wordy.tokenizer, prompt=wordy.prompt, context_len=40)
    monkeypatch.setattr(for_job, "vocabulary_of", lambda _job: short)
    assert settings_for(JOB, SHARED, 1, Path("p")).max_model_len == 40


@given(st.lists(st.integers(1, 400), min_size=1, max_size=20))
def test_no_other_block_shares_more_and_none_larger_as_much(lengths: list[int]) -> None:
    block_size = block_size_for(lengths)
    VllmSettings(python=Path("p"), block_size=block_size)  # vLLM takes it
    for other in BLOCK_SIZES:
        gain = shared_tokens(lengths, other) - shared_tokens(lengths, block_size)
        assert gain < 0 or (gain == 0 and other <= block_size)


def test_a_shared_prefill_that_shares_and_one_not_asked_for_are_not_warned_of(
    caplog: pytest.LogCaptureFixture, wordy: Vocabulary
) -> None:
    with caplog.at_level(logging.WARNING):
        settings_for(JOB, SHARED, 1, Path("p"))
        settings_for(JOB, SHARED.model_copy(update={"share_prefill": False}), 1, Path("p"))
    assert not caplog.records


def test_prompts_shorter_than_a_block_are_said_to_share_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings = settings_for(JOB, SHARED, 1, Path("p"))
    (record,) = caplog.records
    assert f"prompts of at most {max(sampled_prompt_lengths(JOB, 1))} tokens" in record.getMessage()
    assert settings.block_size == BLOCK_SIZES[0]
