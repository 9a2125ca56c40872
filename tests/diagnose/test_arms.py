import pytest
from paste_cases import excerpt, paste, series

from steptune.core.paste import Paste, Series
from steptune.diagnose.arms import arms, reward_differs, two_changes
from steptune.diagnose.job import read_job


def restarted(*runs: tuple[float, ...]) -> Series:
    flat = [value for run in runs for value in run]
    steps = [step for run in runs for step in range(len(run))]
    made = series("reward", *flat)
    points = tuple(p.model_copy(update={"step": s}) for p, s in zip(made.points, steps, strict=True))
    return made.model_copy(update={"points": points})


def notes(*runs: tuple[float, ...], label: str = "fp8+--router-policy cache_aware") -> Paste:
    return paste(series=(restarted(*runs),), excerpts=(excerpt(label),))


def test_a_step_number_that_starts_again_starts_another_run() -> None:
    assert arms(restarted((0.1, 0.2), (0.3,))) == [{0: 0.1, 1: 0.2}, {0: 0.3}]
    assert arms(series("reward", 0.1, 0.2)) == [{1: 0.1, 2: 0.2}]
    assert arms(series("reward", 0.1, 0.2, first_step=None)) == []


def test_a_reward_that_differs_between_runs_is_to_be_explained_up_or_down() -> None:
    down = reward_differs(read_job(notes((0.678, 0.658), (0.604, 0.598))))
    assert down is not None
    assert "0.678, 0.658; 0.604, 0.598" in down.title
    assert reward_differs(read_job(notes((0.5, 0.5), (0.6, 0.6)))) is not None


def test_equal_rewards_and_one_run_do_not_differ() -> None:
    assert reward_differs(read_job(notes((0.678, 0.658), (0.67, 0.66)))) is None
    assert reward_differs(read_job(notes((0.678, 0.2)))) is None
    # one step in common is no comparison: a run that was resumed repeats one
    assert reward_differs(read_job(notes((0.678, 0.658), (0.2,)))) is None


@pytest.mark.parametrize("label", ["fp8+--router-policy cache_aware", "fp8+consistent_hashing:", "# fp8 + tp=2"])
def test_a_heading_that_joins_two_changes_credits_neither(label: str) -> None:
    finding = two_changes(read_job(notes((0.6,), (0.6,), label=label)))
    assert finding is not None
    assert label.strip("#: ") in finding.title


def test_one_change_or_one_run_is_no_double_change() -> None:
    assert two_changes(read_job(notes((0.6,), (0.6,), label="fp8"))) is None
    assert two_changes(read_job(notes((0.6, 0.6)))) is None
    assert two_changes(read_job(notes((0.6,), (0.6,), label="loss + 0.5 * kl"))) is None
