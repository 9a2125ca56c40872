import pytest
from paste_cases import origin, paste

from steptune.core.finding import Finding
from steptune.core.paste import Excerpt, ExcerptKind, Paste
from steptune.diagnose.job import read_job
from steptune.diagnose.table_findings import table_findings
from steptune.diagnose.tables import has_times, tables


def table(heading: str, *rows: str) -> Paste:
    return paste(
        excerpts=tuple(
            Excerpt(kind=ExcerptKind.EVENT, text=row, origin=origin("table", i), context=(heading,))
            for i, row in enumerate(rows)
        )
    )


def found(given: Paste) -> dict[str, Finding]:
    return {f.code: f for f in table_findings(read_job(given))}


SYNC = table(
    "| Staleness | `main` | Saving | Of which `main` spends in weight copies |",
    "| 0 | 8,524 s | 26.9% | 2,141 s |",
    "| 4 | 4,301 s | 31.6% | 2,066 s |",
)


def test_a_column_of_which_is_a_share_of_the_column_it_names() -> None:
    sync = found(SYNC)["weight_sync_bound"]
    assert sync.share is not None
    assert sync.share.low == pytest.approx(2141 / 8524)
    assert sync.share.high == pytest.approx(2066 / 4301)
    # a run's time is not a step's: no ceiling
    assert sync.ceiling is None


def test_the_seconds_of_one_hand_over_stand_beside_its_share() -> None:
    one = table("| Operation | Median seconds |", "| Pause | 5.2 |", "| Complete weight sync | 20.226 |")
    both = SYNC.model_copy(update={"excerpts": (*one.excerpts, *SYNC.excerpts)})
    assert found(both)["weight_sync_bound"].evidence[0].text == "one hand-over: 20.226 s (Complete weight sync)"


def test_small_shares_and_parts_above_the_whole_are_not_named() -> None:
    heading = "| n | `main` | Of which `main` spends in weight copies |"
    assert found(table(heading, "| 0 | 8,524 s | 41 s |")) == {}
    assert found(table(heading, "| 0 | 41 s | 8,524 s |")) == {}
    assert found(table("| n | x | Of which `main` spends in weight copies |", "| 0 | 8 s | 4 s |")) == {}


def test_answers_that_never_end_beside_a_fine_sample_size() -> None:
    heading = "| arm | completed score | trunc % | min ESS fraction |"
    rows = ("| clip | 90/128 | 14.06 | 0.997 |", "| plain | 2/128 | 98.44 | 0.98924 |")
    assert (
        "98.44 % of the answers are cut, 2 of 128 completed"
        in found(table(heading, *rows))["health/low_completion"].title
    )
    assert found(table(heading, rows[0])) == {}
    assert set(found(table("| arm | trunc % |", "| plain | 98.44 |"))) == {"health/truncation"}


def test_a_ratio_under_truncated_sampling_is_the_kept_mass() -> None:
    heading = "| sampling | kept mass | ratio, mean / median |"
    rows = ("| top_p=0.8, top_k=1024 | 0.895 | 0.896 / 0.895 |", "| top_p=1.0 (control) | 0.994 | 0.995 / 1.0 |")
    assert "0.896 under top_p=0.8, top_k=1024" in found(table(heading, *rows))["mismatch/sampling_params"].title
    assert found(table(heading, rows[1])) == {}


def test_what_moved_between_two_rows_with_one_label() -> None:
    heading = "| Backend | Total step time (s) | Training (s) | Refit (s) | tokens |"
    rows = (
        "| Megatron | 147 | 28 | 14 | 398 |",
        "| Megatron (rerun) | 178 | 31 | 26 | 396 |",
        "| DTensor | 230 | 97 | 15 | 1 |",
    )
    moved = found(table(heading, *rows))["moved_phases"]
    assert [e.text for e in moved.evidence] == [
        "Megatron (rerun): 147 to 178 s (+31): Refit 14 to 26 (+12), Training 28 to 31 (+3)"
    ]
    assert found(table(heading, rows[0], rows[2])) == {}


def test_tables_with_different_headings_are_different_tables() -> None:
    both = SYNC.model_copy(update={"excerpts": (*SYNC.excerpts, *table("| a | b |", "| 1 | 2 |").excerpts)})
    assert [len(t.rows) for t in tables(both)] == [2, 1]
    assert [has_times(t) for t in tables(both)] == [True, False]


def test_cells_that_hold_no_number_are_unknown() -> None:
    row = tables(table("| a | b | c |", "| NA | 12,398,852 | -0.5e-3 |"))[0].rows[0]
    assert [row.number(i) for i in range(4)] == [None, 12398852.0, -0.0005, None]
