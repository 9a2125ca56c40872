"""Both arms of a one-sided replay meet the same batches in turn, and only their own side runs."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import torch
from trainer_cases import GROUP, MAX_LEN, SPEC, scored_batch

from steptune.core.errors import TrialError
from steptune.core.framework import SideReplay
from steptune.core.job import AlgorithmSpec, JobSpec
from steptune.core.knob import Settings
from steptune.core.phase import Role
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.one_sided import WARM_UP_PAIRS, Arm, replay_side, take_turns
from steptune.engine.parity import save_batch
from steptune.engine.types import ScoredBatch
from steptune.envs.math.tokenizer import MathTokenizer

JOB = JobSpec(
    name="side",
    model=SPEC,
    algorithm=AlgorithmSpec.model_validate({"group_size": GROUP, "max_completion_len": MAX_LEN, "lr": 1e-3}),
)


HALF_OF_AN_OVERLAP = {"layout": "packed", "compact_finished": True, "schedule": "one_step_off", "correction": "tis"}
"""A change of both sides whose halves run without the overlap."""


def ticking() -> Iterator[float]:
    return map(float, count())


def wanted(
    side: Role,
    folder: Path,
    moved: Settings | None = None,
    *,
    num_pairs: int = 4,
    max_s: float = 1e9,
    line: float = 1.0,
) -> SideReplay:
    knobs = EngineKnobs(train_threads=1, rollout_threads=1, micro_batch_tokens=64).model_dump()
    return SideReplay(
        side=side,
        incumbent=knobs,
        candidate={**knobs, **(moved or {})},
        batches_dir=str(folder / "batches"),
        looks=(4, num_pairs) if num_pairs > 4 else (num_pairs,),
        line=line,
        spread=None,
        max_s=max_s,
    )


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    for number in range(2):
        save_batch(tmp_path / "batches", number, scored_batch(seed=number))
    return tmp_path


def start() -> dict[str, torch.Tensor]:
    return build_model(SPEC, MathTokenizer().vocab_size, seed=4).state_dict()


@pytest.mark.parametrize(
    ("side", "moved"),
    [
        (Role.TRAINER, {"layout": "packed"}),
        (Role.ROLLOUT, {"compact_finished": True, "share_prefill": True}),
        (Role.TRAINER, HALF_OF_AN_OVERLAP),
        (Role.ROLLOUT, HALF_OF_AN_OVERLAP),
    ],
)
def test_each_side_is_timed_pair_by_pair(captured: Path, side: Role, moved: Settings) -> None:
    times = replay_side(JOB, wanted(side, captured, moved), start(), captured)
    assert len(times.incumbent_s) == len(times.candidate_s) == 4
    assert all(seconds > 0 for seconds in (*times.incumbent_s, *times.candidate_s))


def test_a_trainer_replay_generates_nothing_and_a_rollout_replay_trains_nothing(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise AssertionError("the other side ran")

    with monkeypatch.context() as patch:
        patch.setattr("steptune.engine.rollout.RolloutEngine.generate", refuse)
        replay_side(JOB, wanted(Role.TRAINER, captured), start(), captured)
    monkeypatch.setattr("steptune.engine.trainer.Trainer.update", refuse)
    replay_side(JOB, wanted(Role.ROLLOUT, captured), start(), captured)


def test_a_shared_model_is_replayed_with_weights_of_its_own(captured: Path) -> None:
    aliased = wanted(Role.ROLLOUT, captured, {"handover": "alias"})
    assert len(replay_side(JOB, aliased, start(), captured).candidate_s) == 4


def test_arms_take_turns_ab_ba_on_one_batch_after_the_other_and_warm_ups_do_not_count(captured: Path) -> None:
    seen: list[tuple[str, int]] = []
    batches = [scored_batch(seed=0), scored_batch(seed=1)]

    def arm(name: str, seconds: float) -> Arm:
        def run(batch: ScoredBatch) -> float:
            seen.append((name, batches.index(batch) if batch is batches[0] else 1))
            return seconds

        return run

    clock = ticking()
    times = take_turns(
        [arm("a", 2.0), arm("b", 1.0)],
        batches,
        wanted(Role.TRAINER, captured, num_pairs=2),
        lambda: next(clock),
    )
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 0), ("b", 0), ("b", 1), ("a", 1)]
    assert times.incumbent_s == (2.0, 2.0)
    assert times.candidate_s == (1.0, 1.0)
    assert WARM_UP_PAIRS == 2


def test_it_ends_as_soon_as_enough_is_known(captured: Path) -> None:
    times = take_turns(
        [lambda _batch: 1.0, lambda _batch: 1.2],
        [scored_batch(seed=0)],
        wanted(Role.TRAINER, captured, num_pairs=12, line=0.95),
        lambda: 0.0,
    )
    assert len(times.incumbent_s) == 4  # at the first look: no spread at all


def test_no_pair_is_begun_after_the_time_is_up(captured: Path) -> None:
    clock = ticking()
    times = take_turns(
        [lambda _batch: 1.0, lambda _batch: 1.0],
        [scored_batch(seed=0)],
        wanted(Role.TRAINER, captured, num_pairs=12, max_s=4.5),
        lambda: next(clock),
    )
    assert len(times.incumbent_s) == 4 - WARM_UP_PAIRS  # looks at 1, 2, 3 and 4 s; 5 s is past 4.5


def test_a_folder_without_batches_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="no captured batch"):
        replay_side(JOB, wanted(Role.TRAINER, tmp_path), start(), tmp_path)
