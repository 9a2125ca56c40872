"""What a timer holds besides what it is named after, and which side of a shared step is longer."""

import pytest
from paste_cases import lengths, paste, series, step

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Finding
from steptune.core.paste import Paste, Series
from steptune.diagnose.causes import causes
from steptune.diagnose.job import read_job
from steptune.diagnose.paste import diagnose_paste

GEN = {"rollout": 25.6, "old_logprob": 3.2, "train": 3.8}
ENGINE = "timing_s/generate_sequences"
LOOP = "timing_s/agent_loop"


def found(given: Paste) -> dict[str, Finding]:
    return {finding.code: finding for finding in diagnose_paste(given).findings}


def shares(given: Paste) -> dict[BottleneckKind, float]:
    return {c.kind: c.cost_s / c.step_s for c in causes(read_job(given)) if c.cost_s is not None and c.step_s}


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ((series(ENGINE, *[0.8] * 6),), "24.8 s (76% of the step)"),
        ((series(ENGINE, *[0.8] * 6), series("timing_s/generation_timing/max", *[5.6] * 6)), "20 s (61% of the step)"),
        ((series(f"{LOOP}/generate_sequences/max", *[4.0] * 6), series(f"{LOOP}/tool_calls/max", *[1.6] * 6)), "20 s"),
    ],
)
def test_a_timer_far_above_its_known_part_is_named(inside: tuple[Series, ...], said: str) -> None:
    answer = found(paste(step(GEN), series=inside))
    assert said in answer["timer_gap"].title
    assert all(one.key in answer["timer_gap"].title for one in inside[-1:])
    assert "outside the engine" in answer["rollout_bound"].title
    assert not any(remedy.lines for remedy in answer["rollout_bound"].remedies)


def test_causes_inside_generation_cost_no_more_than_generation() -> None:
    # the longest answer is four times the mean: 75 % of the rollout, but only 5 of its 25.6 s are generation
    profile = step(GEN, lengths=lengths(50.0, 100.0, 400.0))
    assert shares(paste(profile))[BottleneckKind.LONG_TAIL] == pytest.approx(0.75 * 25.6 / 32.6)
    held = shares(paste(profile, series=(series(ENGINE, *[5.12] * 6),)))
    assert held[BottleneckKind.LONG_TAIL] == pytest.approx(0.75 * 5.12 / 32.6)
    assert BottleneckKind.LONG_TAIL not in shares(paste(profile, series=(series(ENGINE, *[0.8] * 6),)))


@pytest.mark.parametrize(
    "inside", [(), (series(ENGINE, *[24.0] * 6),), (series(ENGINE, *[30.0] * 6),), (series(ENGINE, *[0.0] * 6),)]
)
def test_a_timer_that_is_what_it_says_has_no_gap(inside: tuple[Series, ...]) -> None:
    assert "timer_gap" not in found(paste(step(GEN), series=inside))


def test_a_gap_that_is_a_small_part_of_the_step_is_not_named() -> None:
    assert "timer_gap" not in found(paste(step({"rollout": 5.0, "train": 95.0}), series=(series(ENGINE, 0.8, 0.8),)))


def test_the_longer_side_leads_a_shared_step() -> None:
    # trainer side 47 + 7 + 6 = 60 of 114, rollout 54 of 114; training alone is the shorter
    held = shares(paste(step({"rollout": 54.0, "train": 47.0, "old_logprob": 7.0, "ref_logprob": 6.0})))
    assert max(held, key=held.__getitem__) is BottleneckKind.TRAINER_BOUND
    assert held[BottleneckKind.TRAINER_BOUND] == pytest.approx(60 / 114)
    untimed = shares(paste(step({"rollout": 54.0, "train": 47.0, "old_logprob": 13.0}, step_s=150.0)))
    assert untimed[BottleneckKind.SERIALISED_SIDES] == pytest.approx(54 / 150)
    assert BottleneckKind.TRAINER_BOUND not in untimed
    short = shares(paste(step({"rollout": 70.0, "train": 30.0, "old_logprob": 7.0})))
    assert max(short, key=short.__getitem__) is BottleneckKind.ROLLOUT_BOUND


@pytest.mark.parametrize(
    ("mean", "slowest", "share"),
    [(267.0, 540.0, 0.273), (366.0, 403.0, None), (267.0, 900.0, None), (0.0, 540.0, None)],
)
def test_seconds_of_samples_show_the_tail(mean: float, slowest: float, share: float | None) -> None:
    # 540 - 267 = 273 of 1,000 s; a slowest sample above the rollout's own timer belongs to another step
    loop = (series(f"{LOOP}/generate_sequences/mean", mean), series(f"{LOOP}/generate_sequences/max", slowest))
    held = shares(paste(step({"rollout": 541.0, "train": 459.0}), series=loop))
    assert held.get(BottleneckKind.LONG_TAIL) == (None if share is None else pytest.approx(share))
