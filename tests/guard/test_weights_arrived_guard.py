from typing import Any

import pytest
from observation_factory import step, steps

from steptune.core.arrival import Arrival
from steptune.core.trial import Observation, QueueCount, QueueStats
from steptune.core.verdict import Judgement
from steptune.guard.weights_arrived import check_weights_arrived


def arrival(number: int, **changed: Any) -> Arrival:
    fields: dict[str, Any] = {
        "version": number,
        "trainer_version": number,
        "num_tensors": 20,
        "num_wrong": 0,
        "num_moved": 20,
        "changed_frac": 0.9,
    }
    return Arrival(**{**fields, **changed})


def handed(count: int = 6, at: int = -1, *, replicas: int = 1, **changed: Any) -> list[Observation]:
    """Healthy hand-overs; ``changed`` is that of the last replica at step ``at``."""
    made: list[Observation] = []
    for number in range(count):
        wrong = changed if number == at else {}
        last = arrival(number, replica=replicas - 1, **wrong)
        made.append(step(number, arrivals=(*(arrival(number, replica=r) for r in range(replicas - 1)), last)))
    return made


def test_whole_hand_overs_pass_and_the_changed_share_is_reported() -> None:
    verdict = check_weights_arrived(handed(changed_frac=0.3, at=2))
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert (verdict.measured.low, verdict.measured.high, verdict.measured.n) == (0.3, 0.9, 6)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "an old version": ({"version": 1}, "holds version 1, the trainer 3"),
    "one tensor missing": ({"num_wrong": 1, "first_wrong": "blocks.1.ffn.up.weight"}, "first `blocks.1.ffn.up.weight`"),
    "nothing handed over": ({"num_wrong": 20, "first_wrong": "embed.weight"}, "20 of 20 tensors"),
    "a skipped step": ({"num_moved": 0, "changed_frac": 0.0}, "the update of step 2 (gradient norm 0.3) moved no"),
}


@pytest.mark.parametrize(("fault", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_one_faulty_hand_over_is_enough(fault: dict[str, Any], says: str) -> None:
    verdict = check_weights_arrived(handed(at=3, **fault))
    assert verdict.judgement is Judgement.FAIL
    assert says in verdict.because


def test_one_stale_replica_of_three_fails_by_its_number() -> None:
    verdict = check_weights_arrived(handed(replicas=3, at=4, version=3), num_replicas=3)
    assert verdict.judgement is Judgement.FAIL
    assert "replica 2 holds version 3, the trainer 4" in verdict.because


def test_weights_that_no_cast_shows_are_arrived_where_the_trainers_own_moved() -> None:
    # bf16 at a small learning rate: the replica's bits stay, the trainer's do not
    assert check_weights_arrived([*handed(at=3, changed_frac=0.0)]).judgement is Judgement.PASS


def test_an_update_without_a_gradient_or_between_steps_that_are_not_counted_need_not_move() -> None:
    still = handed(at=3, num_moved=0)
    flat = [s.model_copy(update={"grad_norm": 0.0}) for s in still]
    assert check_weights_arrived(flat).judgement is Judgement.PASS
    assert check_weights_arrived([s for s in still if s.step != 2]).judgement is Judgement.PASS


def test_launches_do_not_answer_for_each_other() -> None:
    # the second launch's first step has nothing before it, and its version is that of a step of the first launch
    second = handed(4, at=0, num_moved=0)
    assert check_weights_arrived([*handed(), *second]).judgement is Judgement.PASS
    assert check_weights_arrived([*handed(), *handed(4, at=2, num_moved=0)]).judgement is Judgement.FAIL


def test_a_rollout_that_is_ahead_is_handed_older_weights_and_blames_the_step_that_made_them() -> None:
    # the rollouts of step n are sampled with the weights that step n - 2 made
    ahead = [s.model_copy(update={"weight_version": s.weight_version + 1}) for s in handed(at=4, num_moved=0)]
    verdict = check_weights_arrived(ahead)
    assert verdict.judgement is Judgement.FAIL
    assert "the update of step 2" in verdict.because


def test_steps_that_do_not_tell_are_inconclusive() -> None:
    assert check_weights_arrived(steps()).judgement is Judgement.INCONCLUSIVE
    assert check_weights_arrived([]).judgement is Judgement.INCONCLUSIVE
    assert check_weights_arrived(handed(3)).judgement is Judgement.INCONCLUSIVE
    assert check_weights_arrived([*handed(), step(6)]).judgement is Judgement.INCONCLUSIVE
    assert check_weights_arrived(handed(at=1, num_tensors=0)).judgement is Judgement.INCONCLUSIVE
    assert check_weights_arrived(handed(), num_replicas=2).judgement is Judgement.INCONCLUSIVE


def test_a_streams_steps_without_a_hand_over_are_left_out() -> None:
    count = QueueCount(generated=8, trained=8, dropped=0, buffered=0)
    queue = QueueStats(groups=count, tokens=count, lag_mean=1.0)
    assert check_weights_arrived([*handed(), step(6, queue=queue)]).judgement is Judgement.PASS


def test_a_streams_replicas_take_weights_at_steps_of_their_own_but_each_must_tell() -> None:
    count = QueueCount(generated=8, trained=8, dropped=0, buffered=0)
    queue = QueueStats(groups=count, tokens=count, lag_mean=1.0)
    told = [step(n, queue=queue, arrivals=(arrival(n, replica=n % 2),)) for n in range(6)]
    assert check_weights_arrived(told, num_replicas=2).judgement is Judgement.PASS
    silent = check_weights_arrived(told, num_replicas=3)
    assert silent.judgement is Judgement.INCONCLUSIVE
    assert "the run tells of 2 replicas, there are 3" in silent.because
