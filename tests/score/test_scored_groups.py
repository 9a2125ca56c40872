from score_rows import JOB, row

from steptune.published.levers import PairKind
from steptune.published.public_run import public_runs
from steptune.score.groups import distinct, scored_groups


def test_each_ordered_pair_of_a_job_is_compared() -> None:
    (group,) = scored_groups(JOB)
    assert len(group.pairs) == 6
    assert {pair.kind for pair in group.pairs} == {PairKind.STRUCTURAL}


def test_a_recipe_published_twice_counts_once_and_the_later_row_stays() -> None:
    again = row("again", 97.0, version="2")
    assert [run.id for run in distinct([*JOB, again])] == ["tp1", "overlapped", "again"]


def test_a_better_quality_stays_even_when_it_is_earlier() -> None:
    weaker = row("weaker", 97.0, quality="B")
    assert [run.id for run in distinct([JOB[0], weaker])] == ["base"]


def test_quality_c_phases_alone_and_small_batches_are_not_scored() -> None:
    rows = [
        JOB[0],
        row("c", 80.0, train_tp=1, quality="C"),
        row("phases", 80.0, train_tp=1, row_kind="phase_only"),
        row("small", 80.0, train_tp=1, prompts_per_step=8),
    ]
    assert scored_groups(rows) == ()


def test_another_algorithm_another_framework_and_drifted_lengths_are_left_out_and_counted() -> None:
    rows = [
        row("base", 100.0, mean_response_len=1000, other_settings={"mini_batch": 32}),
        row("mini", 80.0, train_tp=1, mean_response_len=1000, other_settings={"mini_batch": 64}),
        row("other", 70.0, train_tp=4, framework="slime", mean_response_len=1000, other_settings={"mini_batch": 32}),
        row("long", 60.0, train_tp=8, mean_response_len=1300, other_settings={"mini_batch": 32}),
        row("steady", 90.0, train_pp=2, train_tp=1, mean_response_len=1050, other_settings={"mini_batch": 32}),
    ]
    (group,) = scored_groups(rows)
    assert {(pair.base.id, pair.other.id) for pair in group.pairs} == {("base", "steady"), ("steady", "base")}
    assert group.num_left_out == 18


def test_the_table_has_structural_jobs_on_both_sides() -> None:
    groups = scored_groups(public_runs())
    structural = {group.side: 0 for group in groups}
    for group in groups:
        structural[group.side] += any(pair.kind is PairKind.STRUCTURAL for pair in group.pairs)
    assert min(structural.values()) >= 10
