"""Every rule has a profile on which it must fire and one on which it must not."""

import math

import pytest
from diagnose_cases import (
    ONE_UPDATE,
    TWO_UPDATES,
    asynchronous,
    curve,
    padded_plan,
    role,
    sync,
)
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Role
from steptune.core.profile import Profile, SampledLengths, SummaryLengths
from steptune.core.work import PlannedWork
from steptune.diagnose.causes import PASTE_RULES
from steptune.diagnose.diagnose import RULES, diagnose
from steptune.diagnose.recompute_cost import RECOMPUTE_FRAC

BALANCED = sync({"rollout": 0.3, "train": 0.3, "old_logprob": 0.2, "weight_sync": 0.1})


def by_kind(kind: BottleneckKind, profile: Profile, planned: PlannedWork | None = None) -> Bottleneck | None:
    return next((b for b in diagnose(profile, planned) if b.kind is kind), None)


def fires(
    kind: BottleneckKind, profile: Profile, share: float, levers: tuple[str, ...], planned: PlannedWork | None = None
) -> str:
    """Assert share, ceiling and levers; return the evidence."""
    bottleneck = by_kind(kind, profile, planned)
    assert bottleneck is not None
    assert bottleneck.share.value == pytest.approx(share)
    assert bottleneck.ceiling.value == pytest.approx(profile.step_time.value * (1 - share))
    assert set(levers) <= set(bottleneck.levers)
    return bottleneck.evidence


def test_every_kind_has_a_rule_over_the_mean_step_or_over_the_whole_input() -> None:
    assert set(RULES) | set(PASTE_RULES) == set(BottleneckKind)
    # the engine's own profiles hold neither saves nor single engines: these kinds need the input they were read from
    assert set(BottleneckKind) - set(RULES) == {
        BottleneckKind.CHECKPOINT_BOUND,
        BottleneckKind.WASTED_GENERATION,
        BottleneckKind.BACKWARD_SLOW,
        BottleneckKind.SMALL_DECODE_BATCH,
        BottleneckKind.IDLE_ENGINES,
        BottleneckKind.VALIDATION_BOUND,
    }


def test_rollout_bound() -> None:
    kind = BottleneckKind.ROLLOUT_BOUND
    evidence = fires(kind, sync({"rollout": 0.55, "train": 0.4}), 0.55, ("rollout_concurrency", "share_prefill"))
    assert evidence == "generation takes 0.55 s of a 1 s step (55%)"
    assert by_kind(kind, BALANCED) is None


def test_a_starved_asynchronous_trainer_is_rollout_bound() -> None:
    # as NeMo RL prints it: exposed generation 48.9 % of the step
    starved = asynchronous(trainer_busy={"train": 4.0}, trainer_wait={"rollout": 4.89})
    evidence = fires(BottleneckKind.ROLLOUT_BOUND, starved, 0.489, ("rollout_dtype",))
    assert "the trainer waits 4.89 s" in evidence
    assert by_kind(BottleneckKind.TRAINER_BOUND, starved) is None


def test_an_asynchronous_trainer_that_is_waited_for_is_trainer_bound() -> None:
    waiting = role(Role.ROLLOUT, 10, {"rollout": 6.0}, {"train": 4.0})
    full = asynchronous(trainer_busy={"train": 9.5}, trainer_wait={"rollout": 0.2}, rollout=waiting)
    # the rollout alone needs 6 of the 10 s, so at most 4 can be won
    fires(BottleneckKind.TRAINER_BOUND, full, 0.4, ("layout", "train_threads"))
    assert by_kind(BottleneckKind.ROLLOUT_BOUND, full) is None


def test_an_asynchronous_job_is_not_rollout_bound_while_its_rollout_waits_longer() -> None:
    waiting = role(Role.ROLLOUT, 10, {"rollout": 5.0}, {"train": 4.0})
    both = asynchronous(trainer_busy={"train": 8.0}, trainer_wait={"rollout": 2.0}, rollout=waiting)
    assert by_kind(BottleneckKind.ROLLOUT_BOUND, both) is None


def test_trainer_bound() -> None:
    kind = BottleneckKind.TRAINER_BOUND
    fires(kind, sync({"rollout": 0.3, "train": 0.6}), 0.6, ("layout", "micro_batch_tokens", "recompute"))
    assert by_kind(kind, BALANCED) is None


def lengths(*completion: int, per_step: int = 10) -> SampledLengths:
    return SampledLengths(prompt=(5,) * len(completion), completion=completion, rollouts_per_step=per_step)


def test_long_tail_of_rows_that_leave() -> None:
    # nine rows end by token 10, one runs to 40: 30 of 40 iterations, of 0.4 s
    tail = sync({"rollout": 0.4}, lengths=lengths(*[10] * 9, 40), settings={"compact_finished": True})
    evidence = fires(BottleneckKind.LONG_TAIL, tail, 0.3, ("compact_finished", "schedule"))
    assert evidence == "75% of decode iterations run after nine rows in ten have ended"


def test_long_tail_of_rows_that_stay() -> None:
    # 10 x 40 positions decoded, 9 x 10 + 40 = 130 of them before a row's end: 67.5 % of 0.4 s
    tail = sync({"rollout": 0.4}, lengths=lengths(*[10] * 9, 40), settings={"compact_finished": False})
    assert "finished rows stay" in fires(BottleneckKind.LONG_TAIL, tail, 0.27, ("compact_finished",))


def test_long_tail_of_a_summary() -> None:
    summary = SummaryLengths(completion_mean=1000, completion_max=4000, clipped_frac=0.01)
    fires(BottleneckKind.LONG_TAIL, sync({"rollout": 0.4}, lengths=summary), 0.3, ())


@pytest.mark.parametrize(
    "even",
    [
        lengths(*[20] * 10),
        lengths(*[0] * 10),
        SummaryLengths(),
        SummaryLengths(completion_mean=1000, completion_max=1500),
        # half of the batch runs into the limit: that is no tail
        SummaryLengths(completion_mean=1000, completion_max=4000, clipped_frac=0.5),
        SummaryLengths(completion_mean=math.nan, completion_max=4000),
    ],
)
def test_no_long_tail(even: SampledLengths | SummaryLengths) -> None:
    assert by_kind(BottleneckKind.LONG_TAIL, sync({"rollout": 0.4}, lengths=even)) is None


def test_padding_waste() -> None:
    kind, profile = BottleneckKind.PADDING_WASTE, sync({"rollout": 0.4, "train": 0.5})
    evidence = fires(kind, profile, 0.2, ("layout",), padded_plan(1000, 600))
    assert evidence == "40% of 1000 positions are padding (0.5 s of training)"
    assert by_kind(kind, profile, padded_plan(1000, 990)) is None
    assert by_kind(kind, profile, padded_plan(0, 0)) is None
    assert by_kind(kind, profile) is None


def test_recompute_cost_is_a_quarter_of_training_where_no_curve_tells() -> None:
    on = sync({"train": 0.4}, settings={"recompute": True})
    assert "one extra forward" in fires(BottleneckKind.RECOMPUTE_COST, on, 0.4 * RECOMPUTE_FRAC, ("recompute",))
    assert by_kind(BottleneckKind.RECOMPUTE_COST, sync({"train": 0.4}, settings={"recompute": False})) is None
    assert by_kind(BottleneckKind.RECOMPUTE_COST, sync({"train": 0.4})) is None


def test_recompute_cost_is_read_off_the_curves() -> None:
    curves = (
        curve("train", (100, 0.1), (1000, 1.0), recompute=True, train_threads=2),
        curve("train", (1000, 0.7), recompute=False, train_threads=2),
        curve("train", (1000, 0.1), recompute=False, train_threads=1),
    )
    settings = {"recompute": True, "train_threads": 2}
    on = sync({"train": 0.4}, settings=settings, costs=curves)
    assert "measured on the train curve" in fires(BottleneckKind.RECOMPUTE_COST, on, 0.12, ("recompute",))


def test_serialised_sides() -> None:
    kind = BottleneckKind.SERIALISED_SIDES
    both = sync({"rollout": 0.5, "reward": 0.05, "train": 0.3, "old_logprob": 0.1})
    fires(kind, both, 0.4, ("schedule", "handover", "correction"))
    assert by_kind(kind, sync({"rollout": 0.98, "train": 0.01})) is None
    assert by_kind(kind, asynchronous(trainer_busy={"train": 5.0}, trainer_wait={"rollout": 5.0})) is None


def test_weight_sync_bound() -> None:
    kind = BottleneckKind.WEIGHT_SYNC_BOUND
    fires(kind, sync({"rollout": 0.4, "weight_sync": 0.2}), 0.2, ("handover",))
    assert by_kind(kind, sync({"rollout": 0.4, "weight_sync": 0.01})) is None


def test_environment_bound() -> None:
    kind = BottleneckKind.ENVIRONMENT_BOUND
    fires(kind, sync({"rollout": 0.4, "env_wait/sandbox": 0.2, "reward": 0.1}), 0.3, ())
    assert by_kind(kind, BALANCED) is None


def test_mode_switch() -> None:
    kind = BottleneckKind.MODE_SWITCH
    fires(kind, sync({"rollout": 0.4, "mode_switch": 0.15}), 0.15, ())
    assert by_kind(kind, BALANCED) is None


def test_redundant_logprob() -> None:
    kind = BottleneckKind.REDUNDANT_LOGPROB
    fires(kind, sync({"train": 0.4, "old_logprob": 0.15}, work=ONE_UPDATE), 0.15, ("logprob_batch_tokens",))
    assert by_kind(kind, sync({"train": 0.4, "old_logprob": 0.15}, work=TWO_UPDATES)) is None
    assert by_kind(kind, sync({"train": 0.4, "old_logprob": 0.15})) is None
    assert by_kind(kind, sync({"train": 0.4}, work=ONE_UPDATE)) is None


def threads(decode_one: float, train_one: float, settings: int = 2) -> Profile:
    """Return a job on two threads whose sides take `decode_one` and `train_one` times as long on one."""
    curves = (
        curve("decode", (64, 0.01), rollout_threads=2),
        curve("decode", (64, 0.01 * decode_one), rollout_threads=1),
        curve("train", (64, 0.1), train_threads=2),
        curve("train", (64, 0.1 * train_one), train_threads=1),
    )
    return sync(
        {"rollout": 0.5, "train": 0.5},
        costs=curves,
        settings={"rollout_threads": settings, "train_threads": settings},
    )


def test_thread_split() -> None:
    kind = BottleneckKind.THREAD_SPLIT
    # max(0.5 x 1.2, 0.5 x 1.4) = 0.7 of 1.0
    fires(kind, threads(1.2, 1.4), 0.3, ("rollout_threads", "train_threads", "schedule"))
    assert by_kind(kind, threads(1.2, 2.0)) is None
    assert by_kind(kind, threads(1.2, 1.4, settings=1)) is None
    assert by_kind(kind, threads(1.2, math.nan)) is None
    assert by_kind(kind, sync({"rollout": 0.5, "train": 0.5})) is None


def test_bottlenecks_come_largest_first() -> None:
    shares = [b.share.value for b in diagnose(BALANCED, padded_plan(10, 5))]
    assert len(shares) >= 3
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("step_s", [0.0, math.nan, math.inf, -1.0])
def test_a_step_without_a_time_has_no_bottlenecks(step_s: float) -> None:
    assert diagnose(sync({"rollout": 0.5}, step_s=step_s), None) == ()


def test_a_profile_that_says_nothing_has_no_bottlenecks() -> None:
    empty = sync({}, roles=(), noise=None)
    assert diagnose(empty, None) == ()


PHASES = ("rollout", "env_wait", "reward", "old_logprob", "train", "weight_sync", "mode_switch")


@given(
    busy=st.fixed_dictionaries({phase: st.floats(0, 10) for phase in PHASES}),
    active=st.floats(0, 1),
    schedule=st.sampled_from(["sync", "async"]),
)
def test_a_ceiling_is_a_part_of_the_step(busy: dict[str, float], active: float, schedule: str) -> None:
    step_s = math.fsum(busy.values()) + 0.1
    profile = sync(busy, step_s=step_s, schedule=schedule, work=ONE_UPDATE, settings={"recompute": True})
    for bottleneck in diagnose(profile, padded_plan(1000, 1000 * active)):
        assert 0 < bottleneck.share.value <= 1
        assert bottleneck.ceiling.value == pytest.approx(step_s * (1 - bottleneck.share.value))
        assert 0 <= bottleneck.ceiling.value <= step_s
        assert bottleneck.evidence
