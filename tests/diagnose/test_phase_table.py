import pytest
from diagnose_cases import asynchronous, measured
from diagnose_cases import role as plain_role
from paste_cases import step

from steptune.core.finding import PhaseRow
from steptune.core.phase import Role
from steptune.diagnose.phase_table import phase_table


def row(rows: tuple[PhaseRow, ...], role: Role, phase: str) -> PhaseRow:
    return next(r for r in rows if r.role is role and r.phase == phase)


def test_only_the_one_who_works_has_a_ceiling_in_a_synchronous_step() -> None:
    rows = phase_table(step({"rollout": 74.0, "train": 14.3}, step_s=96.5))
    busy, wait = row(rows, Role.ROLLOUT, "rollout"), row(rows, Role.TRAINER, "rollout")
    assert busy.if_free is not None
    assert busy.if_free.value == pytest.approx(22.5)
    assert busy.share == pytest.approx(74 / 96.5)
    assert wait.is_wait
    assert wait.if_free is None


def test_time_that_no_timer_covers_is_a_row() -> None:
    rest = row(phase_table(step({"rollout": 70.0, "train": 20.0}, step_s=100.0)), Role.TRAINER, "unattributed")
    assert rest.seconds.value == pytest.approx(10.0)
    assert rest.key == ""


def test_in_an_asynchronous_job_a_wait_has_a_ceiling_and_the_rollouts_own_work_has_none() -> None:
    own = plain_role(Role.ROLLOUT, 10, {"rollout": 9.0}, {})
    rows = phase_table(asynchronous(trainer_busy={"train": 6.0}, trainer_wait={"rollout": 4.0}, rollout=own))
    wait = row(rows, Role.TRAINER, "rollout").if_free
    assert wait is not None
    assert wait.value == pytest.approx(6.0)
    assert row(rows, Role.ROLLOUT, "rollout").if_free is None
    # training for free leaves the rollout's own 9 of 10 s
    free = row(rows, Role.TRAINER, "train").if_free
    assert free is not None
    assert free.value == pytest.approx(9.0)


def test_rows_that_lengthen_the_step_come_first() -> None:
    rows = phase_table(step({"rollout": 7.0, "train": 3.0}))
    has_ceiling = [r.if_free is not None for r in rows]
    assert has_ceiling == sorted(has_ceiling, reverse=True)


def test_seconds_per_thousand_tokens() -> None:
    profile = step({"rollout": 7.0, "train": 3.0}, tokens_per_step=measured(50_000, "tokens"))
    # 7 s x 1000 / 50,000
    assert row(phase_table(profile), Role.ROLLOUT, "rollout").s_per_1k_tokens == pytest.approx(0.14)
    assert row(phase_table(step({"rollout": 7.0})), Role.ROLLOUT, "rollout").s_per_1k_tokens is None


def test_a_step_without_timers_has_no_rows() -> None:
    whole = step({"rollout": 1.0})
    bare = tuple(r.model_copy(update={"phases": ()}) for r in whole.roles)
    assert phase_table(whole.model_copy(update={"roles": bare})) == ()
    assert phase_table(step({"rollout": 1.0}, step_s=0.0)) == ()
    assert phase_table(step({"rollout": 1.0}, step_s=float("nan"))) == ()
