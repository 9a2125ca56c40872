import hashlib
from collections import Counter
from importlib.resources import files

from steptune.published.async_losers import LoserKind, async_losers
from steptune.published.memory_cases import (
    MemoryLabel,
    MemoryOutcome,
    MemoryPhase,
    excluded_posts,
    fourth_cases,
    known_cases,
    memory_cases,
    source_unit,
    third_cases,
)
from steptune.published.public_run import public_runs


def test_at_least_forty_of_each_outcome_name_model_and_memory() -> None:
    usable = Counter(
        case.outcome for case in memory_cases() if case.gpu_memory_gb is not None and case.num_gpus is not None
    )
    assert usable[MemoryOutcome.FIT] >= 40
    assert usable[MemoryOutcome.OUT_OF_MEMORY] >= 40


def test_every_memory_case_has_an_address_and_an_own_name() -> None:
    cases = memory_cases()
    assert len({case.id for case in cases}) == len(cases)
    assert all("/" in case.source for case in cases)


def test_only_what_ran_out_has_a_phase() -> None:
    for case in memory_cases():
        assert (case.phase is None) is (case.outcome is MemoryOutcome.FIT), case.id


def test_what_fitted_stayed_inside_its_gpu() -> None:
    # vendors count 1e9 bytes to a GB, tools 2**30 to a GiB; several sources print the card's own size as the peak
    for case in (*memory_cases(), *third_cases(), *fourth_cases()):
        if case.outcome is MemoryOutcome.FIT and case.peak_gib is not None and case.gpu_memory_gb is not None:
            assert case.peak_gib <= case.gpu_memory_gb, case.id


def test_a_longest_sequence_is_prompt_and_answer_unless_the_total_is_stated() -> None:
    cases = {case.id: case for case in memory_cases()}
    assert cases["openrlhf-776"].worst_len == 2048
    assert cases["prime-rl-950"].worst_len == 32768
    assert cases["verl-2031"].worst_len is None


def test_the_second_collection_has_forty_clear_cases_of_each_outcome() -> None:
    clear = Counter(case.outcome for case in known_cases() if case.label is MemoryLabel.CLEAR and case.cause is None)
    assert clear[MemoryOutcome.FIT] >= 40
    assert clear[MemoryOutcome.OUT_OF_MEMORY] >= 40


def test_a_case_of_the_second_collection_stands_for_the_one_of_the_same_name() -> None:
    case = {case.id: case for case in memory_cases()}["openrlhf-519"]
    assert case.trained_models == 2  # the first collection does not count models
    assert len({case.id for case in memory_cases()}) == len(memory_cases())


def test_what_a_default_filled_in_is_a_column_that_is_filled_in() -> None:
    for case in (*known_cases(), *third_cases(), *fourth_cases()):
        for column in (case.defaults or "").split():
            assert column in type(case).model_fields, case.id


def test_the_third_collection_shares_no_source_with_the_others() -> None:
    earlier = {case.source.lower() for case in memory_cases()} | {post.source.lower() for post in excluded_posts()}
    assert not {case.source.lower() for case in third_cases()} & earlier
    assert not {case.id for case in third_cases()} & {case.id for case in memory_cases()}


def test_the_third_collection_has_twenty_sure_cases_of_each_outcome_from_thirty_posts() -> None:
    sure = [case for case in third_cases() if case.label is not MemoryLabel.WEAK]
    assert min(Counter(case.outcome for case in sure).values()) >= 20
    assert len({case.source for case in sure}) >= 30
    assert all((case.phase is None) is (case.outcome is MemoryOutcome.FIT) for case in third_cases())


def test_the_fourth_collection_shares_no_source_with_the_others() -> None:
    earlier_cases = (*memory_cases(), *third_cases())
    earlier = {case.source.lower() for case in earlier_cases} | {post.source.lower() for post in excluded_posts()}
    assert not {case.source.lower() for case in fourth_cases()} & earlier
    assert len({case.id for case in (*earlier_cases, *fourth_cases())}) == len(earlier_cases) + len(fourth_cases())


def test_the_fourth_collection_has_thirty_sure_cases_of_each_outcome_from_fifty_posts() -> None:
    sure = [case for case in fourth_cases() if case.label is not MemoryLabel.WEAK]
    assert min(Counter(case.outcome for case in sure).values()) >= 30
    assert len({case.source for case in sure}) >= 50
    assert all((case.phase is None) is (case.outcome is MemoryOutcome.FIT) for case in fourth_cases())
    # a table of limits gives few rows, so that no one page decides the score
    assert max(Counter(case.source for case in sure).values()) <= 5


def test_one_source_is_drawn_whole() -> None:
    # files of one repository belong to one half, whatever their commit; threads are drawn one by one
    assert source_unit("Owner/Repo@1234abc:docs/a.md") == source_unit("owner/repo@77:logs/b")
    halves: dict[str, set[str]] = {}
    for case in memory_cases():
        halves.setdefault(source_unit(case.source), set()).add(case.half)
    assert all(len(half) == 1 for half in halves.values())


def test_a_rank_means_adapters() -> None:
    assert all(case.is_lora for case in (*memory_cases(), *fourth_cases()) if case.lora_rank is not None)


def test_posts_left_out_have_a_reason_and_are_no_case_of_running_out() -> None:
    left_out = {post.source for post in excluded_posts()}
    assert all(post.reason for post in excluded_posts())
    assert len(left_out) >= 20
    ran_out = {case.source for case in memory_cases() if case.outcome is MemoryOutcome.OUT_OF_MEMORY}
    assert not ran_out & left_out


def test_phases_are_more_than_unknown() -> None:
    named = [case for case in memory_cases() if case.phase not in (None, MemoryPhase.UNKNOWN)]
    assert len({case.phase for case in named}) >= 4


def test_at_least_ten_losers_can_be_scored() -> None:
    scored = [loser for loser in async_losers() if loser.is_scored]
    schedule = [loser for loser in scored if loser.kind in (LoserKind.ASYNC, LoserKind.DISAGGREGATED)]
    assert len(schedule) >= 10
    assert all(loser.time_ratio is not None and loser.time_ratio > 0.98 for loser in scored)


def test_a_stated_ratio_is_the_ratio_of_the_stated_times() -> None:
    for loser in async_losers():
        if loser.sync_s is not None and loser.async_s is not None and loser.time_ratio is not None:
            assert abs(loser.async_s / loser.sync_s - loser.time_ratio) < 0.001, loser.id


def test_rows_that_a_loser_names_stand_in_the_table() -> None:
    known = {run.id for run in public_runs()}
    for loser in async_losers():
        assert set((loser.run_ids or "").split()) <= known, loser.id


def test_the_sets_are_the_ones_committed_before_any_score() -> None:
    data = files("steptune.published").joinpath("data")
    for name, sha256 in FROZEN.items():
        assert hashlib.sha256(data.joinpath(name).read_bytes()).hexdigest() == sha256, name


FROZEN = {
    "memory_cases.csv": "6848db25eb49936f5c40160b57ab69f5eeb97beb3a540465cdbab9172064359b",
    "memory_known.csv": "6aff02641f8fd5f7ad143766699d9b1c84659da845c539ea9a9a43f641b12674",
    "memory_third.csv": "1b2357786b98da8b3e3a3be04a76abbe91330e4c2f1260f46225277f9be16cc3",
    "memory_fourth.csv": "a9b19c93988f75d91005131c96761fe6b49c78d160e2efa6e4886ce50439407d",
    "async_losers.csv": "eec2a072cd007432ac2787be7261e57b2451aba5490a17b5af71b8a864e3a099",
}
"""A case may be mended, but then in a commit that says so and changes the hash here."""
