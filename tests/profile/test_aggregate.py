import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import LagStats, Profile, SampledLengths, unattributed_frac
from steptune.core.trial import Observation, SpanTime
from steptune.profile.aggregate import ProfileInputs, health_of, median_gap, profile_of, work_signature
from steptune.testing.fake_step import fake_gap, fake_observation

JOB = JobSpec(name="fake", framework="fake")
LENGTHS = SampledLengths(prompt=(8, 8), completion=(4, 16), rollouts_per_step=2)


def step(index: int = 0, rollout_s: float = 0.6, train_s: float = 0.4, **update: object) -> Observation:
    return fake_observation(index, rollout_s, train_s, is_off=False).model_copy(update=update)


def profile(
    kept: Sequence[Observation],
    settings: dict[str, KnobValue] | None = None,
    job: JobSpec = JOB,
    also_seen: tuple[Observation, ...] = (),
) -> Profile:
    return profile_of(
        job,
        ProfileInputs(
            also_seen=also_seen,
            framework="fake",
            version="1",
            settings=settings or {},
            kept=tuple(kept),
            num_warmup=3,
            lengths=LENGTHS,
            health=health_of(kept),
            noise=None,
            costs=(),
            load_avg=None,
        ),
    )


def test_phases_are_means_over_steps_and_roles_keep_busy_and_waiting_apart() -> None:
    made = profile([step(0, 0.5, 0.3), step(1, 0.7, 0.5)])
    rollout, trainer = made.role(Role.ROLLOUT), made.role(Role.TRAINER)
    assert rollout is not None
    assert trainer is not None
    # rollout 0.6 on average, training 0.4, walls 0.8 and 1.2
    assert rollout.busy_s() == pytest.approx(0.6)
    assert rollout.wait_s() == pytest.approx(0.4)
    assert trainer.busy_s() == pytest.approx(0.4)
    assert rollout.wall_s == trainer.wall_s == pytest.approx(1.0)
    assert made.step_time.value == pytest.approx(1.0)
    assert (made.num_steps, made.num_warmup) == (2, 3)


@given(st.lists(st.tuples(st.floats(0.01, 5), st.floats(0.01, 5)), min_size=1, max_size=6))
def test_a_role_s_time_is_conserved(sides: list[tuple[float, float]]) -> None:
    made = profile([step(i, rollout_s, train_s) for i, (rollout_s, train_s) in enumerate(sides)])
    for role in made.roles:
        assert role.busy_s() + role.wait_s() == pytest.approx(role.wall_s)
    assert abs(unattributed_frac(made)) < 1e-9


def test_what_no_span_covers_is_unattributed() -> None:
    short = step(wall_by_role_s={"trainer": 1.25, "rollout": 1.0})
    # 1.25 s of wall, 1.0 s covered
    assert unattributed_frac(profile([short])) == pytest.approx(0.2)


def test_a_phase_that_happens_in_one_step_of_two_counts_half() -> None:
    sync = SpanTime(role="trainer", phase="weight_sync", kind=SpanKind.BUSY, seconds=0.2)
    first = step(0)
    made = profile([first.model_copy(update={"spans": (*first.spans, sync)}), step(1)])
    assert made.busy("weight_sync") == pytest.approx(0.1)


def test_children_stay_inside_their_parent() -> None:
    first = step()
    child = SpanTime(role="rollout", phase="rollout/decode", kind=SpanKind.BUSY, seconds=0.5)
    made = profile([first.model_copy(update={"spans": (*first.spans, child)})])
    assert made.busy("rollout/decode") == pytest.approx(0.5)
    assert made.busy("rollout") == pytest.approx(0.6)
    assert unattributed_frac(made) == pytest.approx(0.0)


def test_only_roles_that_ran_are_profiled() -> None:
    assert [role.role for role in profile([step()]).roles] == [Role.TRAINER, Role.ROLLOUT]


def test_tokens_are_counted_per_device_second() -> None:
    made = profile([step(), step(1)])
    assert made.tokens_per_step is not None
    assert made.tokens_per_step.value == 72
    assert made.tokens_per_device_s is not None
    # 72 tokens in 1.0 s on 2 cores
    assert made.tokens_per_device_s.value == pytest.approx(36)


def test_the_schedule_is_read_off_the_settings() -> None:
    assert profile([step()]).schedule == "sync"
    made = profile([step()], {"schedule": "one_step_off"})
    assert (made.schedule, made.placement) == ("async", "disaggregated")


def test_the_peak_is_the_largest_and_unknown_stays_unknown() -> None:
    peaks = profile([step(memory_peak_bytes=5), step(1, memory_peak_bytes=9), step(2, memory_peak_bytes=None)])
    assert peaks.memory_peak_bytes is not None
    assert (peaks.memory_peak_bytes.value, peaks.memory_peak_bytes.n) == (9, 2)
    assert profile([step(memory_peak_bytes=None)]).memory_peak_bytes is None


def test_a_peak_of_memory_is_also_that_of_the_run_that_evaluated() -> None:
    made = profile([step(memory_peak_bytes=5)], also_seen=(step(memory_peak_bytes=9, step_time_s=7.0),))
    assert made.memory_peak_bytes is not None
    assert (made.memory_peak_bytes.value, made.num_steps, made.step_time.value) == (9, 1, 1.0)


def test_a_profile_needs_a_step() -> None:
    with pytest.raises(ValueError, match="at least one kept step"):
        profile([])


def test_declared_work_is_the_job_s() -> None:
    algorithm = JOB.algorithm
    signature = work_signature(JOB)
    assert signature.prompts_per_step == algorithm.prompts_per_step
    assert signature.group_size == algorithm.group_size
    assert signature.max_completion_len == algorithm.max_completion_len
    assert signature.num_updates == algorithm.num_updates


def test_the_typical_gap_is_the_median_but_the_worst_token_is_the_worst() -> None:
    found = median_gap([fake_gap(1e-6), None, fake_gap(4e-6), fake_gap(9e-2)])
    assert found is not None
    assert found.k3 == 4e-6
    assert found.max_abs == fake_gap(9e-2).max_abs
    assert found.num_tokens == 3 * fake_gap(1e-6).num_tokens
    assert median_gap([None, None]) is None
    assert median_gap([]) is None


def test_off_policyness_is_kept_by_lag() -> None:
    def lagged(index: int, **k3_by_lag: float) -> Observation:
        stats = tuple(LagStats(lag=int(name[1:]), gap=fake_gap(k3)) for name, k3 in k3_by_lag.items())
        return step(index, off_policy=stats, lag_max=len(stats))

    made = profile([lagged(0, _1=1e-4), lagged(1, _1=3e-4, _2=5e-4), lagged(2, _1=2e-4)])
    found = {stats.lag: stats.gap.k3 for stats in made.off_policy}
    assert found == {1: 2e-4, 2: 5e-4}
    # 40 tokens at every lag: (40 + 40 + 2 x 40 + 40) / 160, where the oldest would say 4 / 3
    assert made.staleness_mean == pytest.approx(1.25)
    # of two updates a batch the second is one behind by itself: (40 + 40 + 2 x 40) / 120 - 1 / 2
    two = JOB.model_copy(update={"algorithm": JOB.algorithm.model_copy(update={"num_updates": 2})})
    assert profile([lagged(0, _1=1e-4), lagged(1, _1=3e-4, _2=5e-4)], job=two).staleness_mean == pytest.approx(5 / 6)
    assert profile([step(), step(1)]).staleness_mean == 0


def test_health_is_a_mean_of_what_is_known() -> None:
    found = health_of([step(reward_mean=0.2, entropy=None), step(1, reward_mean=0.4, entropy=None)])
    assert found.reward_mean == pytest.approx(0.3)
    assert found.entropy is None
    assert not found.has_nan


@pytest.mark.parametrize("field", ["loss", "grad_norm", "reward_mean"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_broken_number_is_enough_to_be_sick(field: str, value: float) -> None:
    assert health_of([step(), step(1, **{field: value}), step(2)]).has_nan


@given(st.permutations([math.nan, 1e-6, 2e-6, 3e-6]), st.sampled_from(["k1", "k3", "mean_abs", "max_abs", "ess_frac"]))
def test_nan_in_a_gap_is_never_sorted_or_averaged_away(values: list[float], field: str) -> None:
    found = median_gap([fake_gap(1e-6).model_copy(update={field: value}) for value in values])
    assert found is not None
    assert math.isnan(getattr(found, field))


def test_the_rollout_has_as_many_replicas_as_its_settings_say_and_the_trainer_one() -> None:
    for settings, num in (({}, 1), ({"rollout_replicas": 2}, 2), ({"rollout_replicas": None}, 1)):
        made = profile([step()], settings=settings)
        rollout, trainer = made.role(Role.ROLLOUT), made.role(Role.TRAINER)
        assert rollout is not None
        assert trainer is not None
        assert (rollout.num_replicas, trainer.num_replicas) == (num, 1)
