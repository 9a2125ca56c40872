"""The terminal texts: fixed data in, fixed text out."""

import pytest
from report_sessions import SESSIONS, full_session, hostile_session, killed_session, reject_session

from steptune.report.blocks import Column, Table, Words
from steptune.report.build import build_report
from steptune.report.summary import summary_text
from steptune.report.text import render_text
from steptune.report.text_table import WIDTH, table_lines

SUMMARY = """\
steptune: math-dense
----------------------------------------------------------------------------------------------------
outcome               PROVISIONAL, reward not shown: 2.43 x the speed of the default baseline (2.34
                      to 2.52 x, measured, n=24)
not shown             that the model learns as well with this change; its test could have seen a
                      drop of 0.0410 (derived)
not shown             a change that costs your whole reward margin of 0.03 goes out like this in
                      97.6% of simulated sessions: read it as open, not as nearly adopted
not shown             keep `steptune watch` on its trip-wires; the way back is the baseline
over best practice    1.36 x (1.30 to 1.42 x, measured, n=24)
levers                0.846 x (0.829 to 0.863 x, measured, n=6): recompute: True -> False
                      0.818 x (0.802 to 0.834 x, measured, n=6): layout: padded -> packed
                      0.903 x (0.885 to 0.921 x, measured, n=6): logprob_batch_tokens: 4096 -> None
                      0.877 x (0.859 to 0.895 x, measured, n=6): compact_finished: False -> True,
                      share_prefill: False -> True
                      0.754 x (0.739 to 0.769 x, measured, n=6): schedule: sync -> one_step_off
guards                2 PASS, 1 INCONCLUSIVE (INCONCLUSIVE: reward)
cost, wall            7 m 58 s (measured)
cost, device          15 m 21 s (measured)
paid for itself       784 steps (derived, of the tuned job, in wall time)
expected saving       10 m 12 s (9 m 56 s to 10 m 27 s, derived, n=24, in 1,000 steps at the tested
                      lengths)
why                   2.43 x on 24 steps that were not used to select
why                   only the reward guard is not settled, for lack of seeds
report                runs/x/report.html
"""

WATERFALL = """\
3. What each lever brought
--------------------------
the largest lever is schedule: sync -> one_step_off: 0.754 x (0.739 to 0.769 x, measured, n=6) of
the step before it

[Step time after each lever; a floating bar is what that lever took away (or added)]
baseline
  |########################################| 1.04 s (1.02 to 1.06 s, measured, n=6)
recompute: True -> False
  |                                  ######| 0.880 s (0.862 to 0.898 s, measured, n=6)
layout: padded -> packed
  |                            ######      | 0.720 s (0.706 to 0.734 s, measured, n=6)
"""


def test_the_summary_of_fixed_data_is_this_text() -> None:
    assert summary_text(full_session(), "runs/x/report.html") == SUMMARY


def test_the_report_of_fixed_data_holds_this_text() -> None:
    assert WATERFALL in render_text(build_report(full_session()))


def test_the_summary_of_a_killed_session_claims_nothing() -> None:
    text = summary_text(killed_session())
    assert "session not finished: the journal stops after `trial_started`" in text
    assert "speed" not in text
    assert "1 m 22 s (derived, sum of the finished stages)" in text


def test_a_rejected_candidates_levers_are_not_listed_as_gains() -> None:
    text = summary_text(reject_session())
    assert "levers" not in text
    assert "1 FAIL, 1 INCONCLUSIVE (FAIL: mismatch)" in text


@pytest.mark.parametrize("name", SESSIONS)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    events = SESSIONS[name]()
    lines = [*render_text(build_report(events)).splitlines(), *summary_text(events).splitlines()]
    assert [line for line in lines if len(line) > WIDTH] == []


def test_control_characters_cannot_steer_the_terminal() -> None:
    text = render_text(build_report(hostile_session())) + summary_text(hostile_session())
    assert all(character.isprintable() or character == "\n" for character in text)


def test_columns_align_and_long_cells_wrap() -> None:
    table = Table(
        caption="c",
        columns=(Column(head="name"), Column(head="value", is_number=True), Column(head="why")),
        rows=((Words(text="a"), Words(text="12.5 s"), Words(text="word " * 30)),),
    )
    lines = table_lines(table)
    assert lines[1].startswith("name   value  why")
    assert lines[3].startswith("a     12.5 s  word word")
    assert lines[4].startswith("              word")


def test_a_table_with_too_many_columns_becomes_one_block_per_row() -> None:
    columns = tuple(Column(head=f"head{index}") for index in range(8))
    row = tuple(Words(text="some longer words " * 2) for _ in columns)
    lines = table_lines(Table(caption="c", columns=columns, rows=(row,)))
    assert lines[1].startswith("- head0  some longer words")
    assert len(lines) == 9


def test_a_row_of_the_wrong_width_is_refused() -> None:
    with pytest.raises(ValueError, match="1 columns"):
        Table(caption="c", columns=(Column(head="a"),), rows=((Words(text="x"), Words(text="y")),))
