"""Every trap of the table has a rule, and every rule a row that breaks it."""

import pytest

from steptune.published.levers import PairKind, SettingKind, difference, setting_kinds
from steptune.published.public_run import GenKind, PublicRun, public_runs
from steptune.published.run_checks import Caution, cautions, faults, lengths_drifted

RUN = PublicRun(
    id="a",
    source="someone/repo:docs/x.md",
    framework="verl",
    row_kind="full_step",
    quality="A",
    step_time_s=100.0,
    n_gpus=8,
    placement="colocated",
    gpus_train=8,
    async_lag="0",
    prompts_per_step=64,
    group_size=8,
)


def test_the_table_has_no_fault() -> None:
    assert faults(public_runs()) == []


def test_every_row_is_carried() -> None:
    assert len(public_runs()) == 455


def test_what_is_not_stated_is_none_and_never_zero() -> None:
    unknown = [run for run in public_runs() if run.step_time_s is None]
    assert len(unknown) == 455 - 302
    assert all(run.step_time_s is None or run.step_time_s > 0 for run in public_runs())


def test_a_generation_time_must_say_whether_it_is_all_of_it() -> None:
    assert faults([RUN.model_copy(update={"gen_s": 50.0})]) == ["a: gen_s without gen_kind"]


def test_an_overlapped_row_cannot_call_its_wait_all_generation() -> None:
    row = RUN.model_copy(
        update={"gen_s": 5.0, "gen_kind": GenKind.FULL, "async_lag": "1", "placement": "disaggregated"}
    )
    assert "say exposed_wait" in faults([row])[0]


def test_an_exposed_wait_is_never_read_as_all_generation() -> None:
    row = RUN.model_copy(update={"gen_s": 33.1, "gen_kind": GenKind.EXPOSED_WAIT})
    assert (row.full_gen_s, row.exposed_wait_s) == (None, 33.1)
    assert Caution.EXPOSED_WAIT in cautions(row)


def test_phases_of_one_timeline_cannot_exceed_the_step() -> None:
    row = RUN.model_copy(update={"gen_s": 60.0, "gen_kind": GenKind.FULL, "train_s": 60.0})
    assert "add up to 120 s" in faults([row])[0]


def test_an_asynchronous_trainer_may_work_longer_than_the_step() -> None:
    # verl, 32 GPUs: 313.81 s of training in a step of 294.77 s
    row = next(run for run in public_runs() if run.id == "verl-fa-7b-32-async")
    assert row.train_s is not None
    assert row.step_time_s is not None
    assert row.train_s > row.step_time_s
    assert {Caution.OWN_ROLE, Caution.HIDDEN_LOGPROB} <= cautions(row)


def test_missing_lengths_are_a_caution() -> None:
    assert Caution.NO_LENGTHS in cautions(RUN)
    assert Caution.NO_LENGTHS not in cautions(RUN.model_copy(update={"mean_response_len": 900.0}))


def test_lengths_that_drift_are_told() -> None:
    short, long = (RUN.model_copy(update={"mean_response_len": tokens}) for tokens in (1000.0, 1200.0))
    assert lengths_drifted(short, long) is True
    assert lengths_drifted(short, short) is False
    assert lengths_drifted(short, RUN) is None


def test_a_batch_of_sixty_four_samples_is_small_and_an_unknown_one_is_not() -> None:
    assert Caution.SMALL_BATCH in cautions(RUN.model_copy(update={"prompts_per_step": 8.0}))
    assert Caution.SMALL_BATCH not in cautions(RUN)
    assert Caution.SMALL_BATCH not in cautions(RUN.model_copy(update={"group_size": None}))


def test_quality_c_is_for_sanity_only() -> None:
    assert Caution.SANITY_ONLY in cautions(RUN.model_copy(update={"quality": "C"}))


def test_a_group_of_two_owners_is_a_fault() -> None:
    rows = [
        RUN.model_copy(update={"id": name, "source": f"{name}/repo:x", "job_group": "g"}) for name in ("one", "two")
    ]
    assert faults(rows) == ["group g: rows of ['one', 'two']"]


def test_a_setting_that_nobody_sorted_is_a_fault() -> None:
    assert "made_up" in faults([RUN.model_copy(update={"other_settings": {"made_up": 1}})])[0]


@pytest.mark.parametrize(
    ("update", "kind"),
    [
        ({}, PairKind.REPEAT),
        ({"version": "v2"}, PairKind.RELEASE),
        ({"other_settings": {"cluster": "north"}}, PairKind.SITE),
        ({"placement": "disaggregated", "gpus_train": 4, "async_lag": "1"}, PairKind.STRUCTURAL),
        ({"n_gpus": 16, "gpus_train": 16}, PairKind.STRUCTURAL),
        ({"max_response_len": 8192}, PairKind.UNCLEAR),
        ({"other_settings": {"torch_compile": True}}, PairKind.KERNEL),
        ({"precision_rollout": "fp8"}, PairKind.KERNEL),
        ({"other_settings": {"mini_batch": 64}}, PairKind.ALGORITHM),
    ],
)
def test_a_pair_is_what_its_levers_say(update: dict[str, object], kind: PairKind) -> None:
    base = RUN.model_copy(
        update={"version": "v1", "precision_rollout": "bf16", "other_settings": {"mini_batch": 32, "cluster": "south"}}
    )
    moved = update.get("other_settings")
    settings = {**base.other_settings, **(moved if isinstance(moved, dict) else {})}
    assert difference(base, base.model_copy(update={**update, "other_settings": settings})).kind is kind


def test_a_doubled_cluster_alone_moves_one_lever() -> None:
    # data-parallel sizes follow from the devices
    wide = RUN.model_copy(update={"n_gpus": 16, "gpus_train": 16, "train_dp": 16})
    assert difference(RUN.model_copy(update={"train_dp": 8}), wide).families == ("devices",)


def test_lengths_worked_out_of_throughput_are_outcomes() -> None:
    assert setting_kinds()["derived_mean_total_len_from_throughput"] is SettingKind.OUTCOME
