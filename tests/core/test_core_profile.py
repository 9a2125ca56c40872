import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import PhaseTime, Profile, RoleProfile, unattributed_frac


def seconds(value: float) -> Estimate:
    return Estimate(value=value, unit="s", source=Source.MEASURED)


def time(role: Role, phase: str, value: float, kind: SpanKind = SpanKind.BUSY) -> PhaseTime:
    return PhaseTime(role=role, phase=phase, kind=kind, seconds=seconds(value))


def role_of(wall_s: float, *phases: PhaseTime) -> RoleProfile:
    return RoleProfile(role=phases[0].role if phases else Role.TRAINER, wall_s=wall_s, phases=phases)


def profile(*roles: RoleProfile) -> Profile:
    return Profile(framework="fake", step_time=seconds(1.0), roles=roles, num_steps=4)


TRAINER = role_of(
    1.0,
    time(Role.TRAINER, "train", 0.4),
    time(Role.TRAINER, "train/forward", 0.15),
    time(Role.TRAINER, "train/backward", 0.25),
    time(Role.TRAINER, "rollout", 0.55, SpanKind.EXPOSED_WAIT),
)


def test_children_lie_inside_their_parent_and_a_wait_is_not_work() -> None:
    assert TRAINER.busy_s() == pytest.approx(0.4)
    assert TRAINER.wait_s() == pytest.approx(0.55)
    assert TRAINER.unattributed_s() == pytest.approx(0.05)


@given(
    st.lists(st.tuples(st.sampled_from(["train", "reward", "train/forward"]), st.floats(0, 10), st.booleans())),
    st.floats(0, 100),
)
def test_busy_waiting_and_unattributed_always_make_up_the_wall(
    parts: list[tuple[str, float, bool]], wall_s: float
) -> None:
    phases = [
        time(Role.TRAINER, phase, value, SpanKind.EXPOSED_WAIT if waits else SpanKind.BUSY)
        for phase, value, waits in parts
    ]
    role = role_of(wall_s, *phases)
    assert role.busy_s() + role.wait_s() + role.unattributed_s() == pytest.approx(wall_s, abs=1e-9)


def test_busy_seconds_of_a_phase_are_summed_over_roles_without_waits() -> None:
    rollout = role_of(1.0, time(Role.ROLLOUT, "rollout", 0.55), time(Role.ROLLOUT, "train", 0.4, SpanKind.EXPOSED_WAIT))
    both = profile(TRAINER, rollout)
    assert both.busy("rollout") == pytest.approx(0.55)
    assert both.busy("train") == pytest.approx(0.4)
    assert both.busy("train/forward") == pytest.approx(0.15)
    assert both.busy("reward") == 0


def test_a_role_that_is_not_there_is_none() -> None:
    assert profile(TRAINER).role(Role.TRAINER) is TRAINER
    assert profile(TRAINER).role(Role.ENVIRONMENT) is None


def test_the_worst_role_counts_and_overlap_shows_as_negative() -> None:
    gap = role_of(2.0, time(Role.ROLLOUT, "rollout", 1.0))
    overlap = role_of(1.0, time(Role.CONTROLLER, "reward", 1.7))
    assert unattributed_frac(profile(TRAINER)) == pytest.approx(0.05)
    assert unattributed_frac(profile(TRAINER, gap)) == pytest.approx(0.5)
    assert unattributed_frac(profile(TRAINER, gap, overlap)) == pytest.approx(-0.7)
    assert unattributed_frac(profile()) == 0.0
    assert unattributed_frac(profile(role_of(0.0))) == 0.0
