import pytest
from paste_cases import gpus, origin, paste, series, settings, step

from steptune.core.finding import Finding, FindingKind
from steptune.core.paste import Note, Paste
from steptune.diagnose.implausible import implausible
from steptune.diagnose.job import read_job


def found(given: Paste) -> dict[str, Finding]:
    signs = {f.code.removeprefix("implausible/"): f for f in implausible(read_job(given))}
    assert all(f.kind is FindingKind.IMPLAUSIBLE and f.share is None for f in signs.values())
    return signs


@pytest.mark.parametrize(("value", "is_flagged"), [(1.018, True), (0.42, False), (0.0, False), (float("nan"), False)])
def test_an_mfu_above_one(value: float, is_flagged: bool) -> None:
    assert ("mfu" in found(paste(series=(series("mfu", value),)))) is is_flagged


def test_more_memory_than_the_card_has() -> None:
    used = (series("memory_allocated_gib", 67.4), series("memory_reserved_gib", 75.1))
    stated = found(paste(series=used, devices=gpus("C550", 8, 64.0)))["memory"]
    assert "75.1 GiB in use on cards of 64 GiB" in stated.title
    assert len(stated.evidence) == 2
    assert "memory" in found(paste(series=(series("memory_allocated_gib", 85.0),), devices=gpus("H100 80GB")))
    assert "memory" not in found(paste(series=used, devices=gpus("H100")))
    assert "memory" not in found(paste(series=used, devices=gpus("C550")))
    assert "memory" not in found(paste(series=used))


def test_a_first_throughput_of_zero_is_undefined() -> None:
    zero = found(paste(series=(series("tokens_per_device_s", 0.0, 3324.0, first_step=0),)))["zero_throughput"]
    assert "of step 0 is undefined" in zero.title
    assert "zero_throughput" not in found(paste(series=(series("tokens_per_device_s", 3324.0),)))


def test_damaged_values_are_reported_with_their_places() -> None:
    note = Note(text="`perf/tgs` was left out: `20` may have lost digits", origin=origin("perf/tgs", 7))
    broken = found(paste(notes=(note, Note(text="one step only"))))["broken_value"]
    assert [e.origin.line for e in broken.evidence if e.origin] == [7]


def three_decimals(*more: float) -> tuple[object, ...]:
    others = [series(f"metric{i}", i / 1000) for i in range(1, 9)]
    return (*others, series("actor/ppo_kl", 0.0), *(series("extra", value) for value in more))


def test_zeros_of_a_log_with_three_decimals_are_roundings() -> None:
    sign = found(paste(series=three_decimals()))["rounded_zero"]
    assert "0.000 means below 0.0005" in sign.title
    assert "actor/ppo_kl" in sign.title


def test_one_value_with_more_digits_says_that_zeros_are_zeros() -> None:
    assert "rounded_zero" not in found(paste(series=three_decimals(0.00012)))
    assert "rounded_zero" not in found(paste(series=(series("actor/ppo_kl", 0.0),)))


def test_whole_numbers_and_two_decimals_say_nothing_of_zeros() -> None:
    for unit in (1.0, 0.01):
        others = tuple(series(f"metric{i}", i * unit) for i in range(1, 12))
        assert "rounded_zero" not in found(paste(series=(*others, series("actor/ppo_kl", 0.0))))


def test_names_that_mislead_are_explained_where_they_stand() -> None:
    given = paste(framework="nemo_rl", series=(series("exposed_generation", 32.5),))
    assert "is the wait of the trainer" in found(given)["renamed_metric"].title
    verl = paste(series=(series("global_seqlen/min", 5e5), series("global_seqlen/max", 6e5)))
    assert "`global_seqlen/max`, `global_seqlen/min` counts" in found(verl)["renamed_metric"].title
    assert "renamed_metric" not in found(paste(framework="slime", series=(series("exposed_generation", 1.0),)))


@pytest.mark.parametrize(
    ("seconds", "is_told"),
    [
        ((29.2, 244.4), True),
        ((4.0, 31.0, 4.2, 30.0, 4.1, 33.0), True),
        ((32.0, 29.1, 25.0, 26.2, 30.3, 28.8), False),
        ((18.3, 88.0, 98.1, 162.1, 137.0, 120.0, 141.0, 110.0, 99.0, 150.0, 131.0, 1263.0), False),
        ((30.6,), False),
    ],
)
def test_the_oddity_of_trls_step_time_is_told_only_where_the_steps_are_of_two_kinds(
    seconds: tuple[float, ...], is_told: bool
) -> None:
    given = paste(framework="trl", series=(series("step_time", *seconds),))
    assert ("renamed_metric" in found(given)) is is_told


def test_an_old_name_is_told_only_beside_the_new_one() -> None:
    old, new = series("completion_length", 100.0), series("completions/mean_length", 100.0)
    assert "renamed_metric" not in found(paste(framework="trl", series=(old,)))
    assert "renamed_metric" in found(paste(framework="trl", series=(old, new)))


def test_timers_that_add_up_to_more_than_the_step() -> None:
    over = found(paste(step({"rollout": 80.0, "train": 30.0}, step_s=100.0)))["arithmetic"]
    assert over.evidence
    assert "80 s of 100 s" in over.evidence[0].text
    assert over.evidence[0].origin is not None
    assert "arithmetic" not in found(paste(step({"rollout": 70.0, "train": 30.0}, step_s=100.0)))


def test_steps_that_go_back_are_several_runs() -> None:
    back = series("reward", 0.6, 0.7, 0.5)
    points = tuple(p.model_copy(update={"step": s}) for p, s in zip(back.points, (0, 1, 0), strict=True))
    assert "mixed_steps" in found(paste(series=(back.model_copy(update={"points": points}),)))
    assert "mixed_steps" not in found(paste(series=(back,)))


def test_a_plain_log_holds_nothing_implausible() -> None:
    plain = (series("mfu", 0.4), series("reward", 0.51234), series("memory_allocated_gib", 40.0))
    assert found(paste(step({"rollout": 7.0, "train": 3.0}), series=plain, settings=settings(x=1))) == {}


def test_a_log_prob_pass_as_slow_as_training_is_odd() -> None:
    # 100 s against 108 s: at 2.3 it would take 47 s, the step 53 s less
    odd = found(paste(step({"rollout": 50.0, "old_logprob": 100.0, "train": 108.0})))["phase_ratio"]
    assert "a ratio of 1.08" in odd.title
    ceilings = [r.step_time.value for r in odd.remedies if r.step_time]
    assert ceilings == [pytest.approx(258 - 100 + 108 / 2.3)]
    assert "phase_ratio" not in found(paste(step({"rollout": 50.0, "old_logprob": 25.0, "train": 108.0})))
    assert "phase_ratio" not in found(paste(step({"rollout": 500.0, "old_logprob": 2.0, "train": 2.0})))
