from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.profile import SampledLengths
from steptune.core.trial import EvalResult, Observation
from steptune.trial.blocks import (
    REHEARSAL_S,
    WARMUP_STEPS,
    BlockPlan,
    Pair,
    mean_step_s,
    rotate_arms,
    run_block,
    take_turns,
    warm_up,
)


@dataclass
class Recorded:
    """A session that notes who ran, and whose every step takes as long as its number."""

    name: str
    log: list[str] = field(default_factory=list)
    num_steps: int = 0
    rehearsals: list[float] = field(default_factory=list)

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        self.log.append(self.name)
        self.rehearsals.append(rehearse_s)
        steps = [observed(self.num_steps + i) for i in range(num_steps)]
        self.num_steps += num_steps
        return steps

    def evaluate(self) -> EvalResult:
        raise NotImplementedError

    def lengths(self) -> SampledLengths:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def observed(step: int, step_time_s: float = 1.0) -> Observation:
    return Observation(
        step=step,
        step_time_s=step_time_s,
        wall_by_role_s={},
        spans=(),
        prompt_tokens=1,
        completion_tokens=1,
        padded_tokens=2,
        decode_iterations=1,
        num_rollouts=1,
        completion_len_p50=1,
        completion_len_max=1,
        truncated_frac=None,
        reward_mean=None,
        mixed_groups_frac=None,
        entropy=None,
        grad_norm=None,
        loss=None,
        mismatch=None,
        lag_max=0,
        memory_peak_bytes=None,
        weight_version=step + 1,
    )


@given(st.integers(1, 6), st.integers(1, 5))
def test_turns_are_abba_so_that_drift_falls_on_both_alike(num_pairs: int, kept: int) -> None:
    log: list[str] = []
    plan = BlockPlan(max_pairs=num_pairs, kept_steps=kept)
    pairs = list(take_turns(Recorded("A", log), Recorded("B", log), plan))
    assert "".join(log) == ("ABBA" * num_pairs)[: 2 * num_pairs]
    assert len(pairs) == num_pairs
    for pair in pairs:
        assert len(pair.incumbent) == len(pair.candidate) == kept


def test_every_block_is_rehearsed_and_blocks_go_through_the_reference_steps_without_a_gap() -> None:
    session = Recorded("A")
    plan = BlockPlan(max_pairs=1, kept_steps=3)
    blocks = [run_block(session, plan) for _ in range(2)]
    assert session.rehearsals == [REHEARSAL_S, REHEARSAL_S]
    assert [step.step for block in blocks for step in block] == [0, 1, 2, 3, 4, 5]


def test_a_consumer_that_stops_stops_the_trial() -> None:
    log: list[str] = []
    turns = take_turns(Recorded("A", log), Recorded("B", log), BlockPlan(max_pairs=9, kept_steps=1))
    next(turns)
    turns.close()
    assert log == ["A", "B"]


def test_warm_up_runs_one_session_after_the_other() -> None:
    log: list[str] = []
    sessions = [Recorded("A", log), Recorded("B", log)]
    warm_up(sessions)
    assert log == ["A", "B"]
    assert [session.num_steps for session in sessions] == [WARMUP_STEPS, WARMUP_STEPS]


@given(st.integers(1, 5), st.integers(1, 4))
def test_rotation_goes_there_and_back_and_keeps_blocks_by_arm(num_arms: int, rounds: int) -> None:
    log: list[str] = []
    sessions = [Recorded(chr(ord("A") + i), log) for i in range(num_arms)]
    plan = BlockPlan(max_pairs=rounds, kept_steps=2)
    blocks = rotate_arms(sessions, rounds, plan)
    forwards = [session.name for session in sessions]
    assert log == [name for i in range(rounds) for name in (forwards if i % 2 == 0 else forwards[::-1])]
    assert [len(arm) for arm in blocks] == [rounds] * num_arms
    assert all(len(block) == 2 for arm in blocks for block in arm)


def test_a_pair_compares_means_not_medians() -> None:
    # a hiccup of 4 s is paid for: (1 + 1 + 4) / 3 = 2 against 1
    slow = tuple(observed(i, s) for i, s in enumerate((1.0, 1.0, 4.0)))
    fast = tuple(observed(i, 1.0) for i in range(3))
    assert mean_step_s(slow) == pytest.approx(2.0)
    assert Pair(incumbent=fast, candidate=slow).ratio == pytest.approx(2.0)
    assert Pair(incumbent=slow, candidate=fast).ratio == pytest.approx(0.5)
