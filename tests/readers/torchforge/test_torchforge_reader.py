from fixture_steps import booked, paste_of, points, profile_in

from steptune.core.phase import Role, SpanKind


def test_a_block_of_sorted_metrics_is_a_step() -> None:
    paste = paste_of("torchforge_cut.txt")
    assert paste.framework == "torchforge"
    assert points(paste, "evicted") == [(3, 784.0, 6)]
    assert points(paste, "added") == [(3, 786.0, 3)]
    assert points(paste, "step_time") == [(3, 224.97223744285293, 18)]


def test_the_age_of_thrown_away_episodes_is_not_the_staleness_of_trained_ones() -> None:
    assert paste_of("torchforge_cut.txt").get_series("staleness_mean") is None
    ages = paste_of("torchforge_ages.txt")
    assert points(ages, "staleness_mean") == [(2, 0.5, 6)]
    assert points(ages, "completion_mean") == [(2, 947.15625, 11)]
    assert ages.profile is None


def test_the_trainer_is_booked_on_its_own_clock_and_a_broken_off_block_is_said_to_be_one() -> None:
    paste = paste_of("torchforge_cut.txt")
    profile = profile_in(paste)
    trainer = booked(profile, Role.TRAINER)
    assert trainer[("train", SpanKind.BUSY)] == 7.712
    assert round(trainer[("weight_sync", SpanKind.BUSY)], 2) == 20.11  # 14.28 push + 5.83 drop
    assert ("rollout", SpanKind.EXPOSED_WAIT) not in trainer
    assert any("breaks off" in note.text for note in paste.notes)


def test_the_split_of_a_rollout_loop_is_carried_over_to_the_step() -> None:
    rollout = booked(profile_in(paste_of("torchforge_cut.txt")), Role.ROLLOUT)
    assert rollout[("rollout", SpanKind.BUSY)] == 200.645  # 137.517 / 154.190 x 224.972
    assert rollout[("ref_logprob", SpanKind.BUSY)] == 23.611
