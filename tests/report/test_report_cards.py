"""Every card on every kind of session: none may crash, none may claim what the journal does not hold."""

import pytest
from report_sessions import (
    SESSIONS,
    full_session,
    killed_session,
    minimal_session,
    nan_session,
    no_change_session,
    refused_session,
    reject_session,
)

from steptune.core.event import Confirmed, Event, Profiled, Reserved, TrialEnded
from steptune.core.verdict import Judgement
from steptune.report.blocks import Bars, Figures, Lanes, Number, Ranges, Table, Text
from steptune.report.build import CONTENTS, Entry, build_report
from steptune.report.card import Broken, Card, NotApplicable, Shown
from steptune.report.not_shown import not_shown
from steptune.report.session_view import SessionView, view_session
from steptune.report.text_table import cell_text


def card_of(events: list[Event], key: str) -> Card:
    return next(card for card in build_report(events).cards if card.key == key)


def shown(events: list[Event], key: str) -> Shown:
    body = card_of(events, key).body
    assert isinstance(body, Shown), body
    return body


def table(body: Shown, caption: str) -> list[list[str]]:
    found = next(block for block in body.blocks if isinstance(block, Table) and block.caption == caption)
    return [[cell_text(cell) for cell in row] for row in found.rows]


@pytest.mark.parametrize("name", SESSIONS)
def test_no_card_breaks_on_any_session(name: str) -> None:
    report = build_report(SESSIONS[name]())
    assert [card.key for card in report.cards] == [entry.key for entry in CONTENTS]
    assert [card for card in report.cards if isinstance(card.body, Broken)] == []


def test_every_card_is_shown_for_the_full_session() -> None:
    assert {card.body.kind for card in build_report(full_session()).cards} == {"shown"}


def test_an_early_kill_leaves_only_what_the_start_knows() -> None:
    bodies = {card.key: card.body for card in build_report(minimal_session()).cards}
    assert {key for key, body in bodies.items() if isinstance(body, Shown)} == {"decision", "levers", "noise"}


def test_a_crash_of_one_card_is_recorded_and_loses_no_other() -> None:
    def crash(_: SessionView) -> Shown | NotApplicable:
        raise ZeroDivisionError("division by zero")

    report = build_report(full_session(), [Entry("bad", "Bad", crash), *CONTENTS])
    bad = report.cards[0].body
    assert isinstance(bad, Broken)
    assert bad.error == "ZeroDivisionError: division by zero"
    assert bad.where.startswith("test_report_cards.py:")
    assert all(isinstance(card.body, Shown) for card in report.cards[1:])


def test_the_decision_states_the_confirmed_speed_up_with_its_source() -> None:
    line = shown(full_session(), "decision").takeaway
    said = "PROVISIONAL, reward not shown: 2.43 x the speed of the default baseline (2.34 to 2.52 x, measured, n=24)"
    assert line == said


def test_a_provisional_decision_says_first_what_is_not_shown_and_an_adopted_one_has_nothing_to_say() -> None:
    blocks = shown(full_session(), "decision").blocks
    (left_open,) = [b for b in blocks if isinstance(b, Text) and b.heading == "Not shown"]
    assert "learns as well" in left_open.lines[0]
    assert "its test could have seen a drop of" in left_open.lines[0]
    assert "97.6% of simulated sessions" in left_open.lines[1]
    view = view_session(full_session())
    assert view.decision is not None
    settled = [v.model_copy(update={"judgement": Judgement.PASS}) for v in view.decision.verdicts]
    assert not_shown(view, settled) == ()


def test_the_configuration_is_a_diff_against_the_baseline_levers() -> None:
    rows = table(shown(full_session(), "decision"), "Configuration handed back")
    assert [row[0] for row in rows] == [
        "compact_finished",
        "layout",
        "logprob_batch_tokens",
        "recompute",
        "schedule",
        "share_prefill",
    ]
    assert rows[1] == ["layout", "padded", "packed", "sorted"]


def test_a_killed_session_says_where_it_stopped_and_claims_no_speed() -> None:
    body = shown(killed_session(), "decision")
    assert body.takeaway == "session not finished: the journal stops after `trial_started`"
    figures = next(block for block in body.blocks if isinstance(block, Figures))
    assert [figure for figure in figures.figures if "speed" in figure.label] == []


def test_a_session_that_ended_in_an_error_names_it() -> None:
    assert "StoreError: the profile has no cost curve" in shown(refused_session(), "decision").takeaway


def test_no_change_hands_the_baseline_back() -> None:
    body = shown(no_change_session(), "decision")
    assert body.takeaway == "NO CHANGE: the default baseline is handed back"
    texts = [line for block in body.blocks if block.kind == "text" for line in block.lines]
    assert "identical to the baseline, knob by knob" in texts


def test_a_rejected_candidate_is_never_called_the_result() -> None:
    line = shown(reject_session(), "decision").takeaway
    assert line.startswith("REJECT: the default baseline is handed back; the candidate ran at 2.43 x")
    captions = [block.caption for block in shown(reject_session(), "guards").blocks if isinstance(block, Table)]
    assert captions[0] == "Verdicts on the candidate, which is not handed back"


def test_lanes_of_before_and_after_add_up_to_the_wall_time_of_their_role() -> None:
    lanes = next(block for block in shown(full_session(), "timeline").blocks if isinstance(block, Lanes)).lanes
    assert [lane.group for lane in lanes] == ["before, sync", "before, sync", "after, async", "after, async"]
    for lane in lanes:
        assert sum(segment.seconds.value for segment in lane.segments) == pytest.approx(lane.wall.value)
        assert lane.segments[-1].kind == "unattributed"


def test_overlapping_spans_are_said_not_drawn_as_negative_time() -> None:
    events = full_session()
    assert isinstance(events[1], Profiled)
    roles = tuple(role.model_copy(update={"wall_s": 0.9}) for role in events[1].profile.roles)
    events[1] = events[1].model_copy(update={"profile": events[1].profile.model_copy(update={"roles": roles})})
    lane = next(block for block in shown(events, "timeline").blocks if isinstance(block, Lanes)).lanes[0]
    # trainer spans: 0.47 + 0.011 + 0.13 + 0.40 + 0.021 = 1.032 s in 0.9 s of wall time
    assert lane.note == "spans overlap by 0.132 s (derived)"
    assert all(segment.seconds.value >= 0 for segment in lane.segments)


def test_waterfall_shares_add_up_to_one() -> None:
    body = shown(full_session(), "waterfall")
    rows = next(block for block in body.blocks if isinstance(block, Table)).rows
    shares = [row[4].estimate.value for row in rows if isinstance(row[4], Number)]
    assert len(shares) == 5
    assert sum(shares) == pytest.approx(1)
    assert body.takeaway.startswith("the largest lever is schedule: sync -> one_step_off: 0.754 x")


def test_waterfall_bars_float_between_neighbouring_steps() -> None:
    bars = next(block for block in shown(full_session(), "waterfall").blocks if isinstance(block, Bars)).bars
    assert [(bar.start, bar.end) for bar in bars[:3]] == [(0, 1.04), (1.04, 0.88), (0.88, 0.72)]
    assert (bars[-1].start, bars[-1].end) == (0, 0.43)


def test_every_trial_is_listed_with_its_cause_whatever_became_of_it() -> None:
    body = shown(full_session(), "trials")
    rows = table(body, "Trials, in order")
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6", "7"]
    assert rows[3][2] == "REJECT (out of memory)"
    assert rows[3][-1] == "rollout worker killed at 24.9 GB resident"
    assert rows[6][-1] == "loss became NaN at step 3"
    assert "9 of 42 candidates refused" in next(block.heading for block in body.blocks if block.kind == "text")


def test_a_trial_that_was_killed_is_listed_once_as_without_result() -> None:
    rows = table(shown(killed_session(), "trials"), "Trials, in order")
    assert [(row[0], row[2]) for row in rows] == [("1", "ADOPT (finished)"), ("2", "no result (started, never ended)")]


def test_guards_show_what_they_could_have_seen() -> None:
    rows = table(shown(full_session(), "guards"), "Verdicts on the configuration handed back")
    reward = next(row for row in rows if row[0] == "reward")
    assert reward[1] == "INCONCLUSIVE"
    assert reward[4] == "0.0410 (derived)"


def test_best_practice_levers_say_why() -> None:
    rows = table(shown(full_session(), "levers"), "Levers")
    recompute = next(row for row in rows if row[0] == "recompute")
    assert recompute[1:] == [
        "true",
        "GRPOConfig().gradient_checkpointing is True",
        "false",
        "memory is not short here",
        "false",
    ]


def test_reward_dots_pair_the_seeds_and_show_the_baselines_own_gain() -> None:
    body = shown(full_session(), "reward")
    dots = next(block for block in body.blocks if isinstance(block, Ranges))
    assert [mark.estimate.value for mark in dots.rows[1].marks] == [0.405, 0.511, 0.484]
    figures = next(block for block in body.blocks if isinstance(block, Figures)).figures
    # mean of 0.090, 0.106, 0.071, 0.098, 0.087
    assert cell_text(figures[0].cell) == "0.0904 (derived, n=5, mean over seeds, accuracy)"


def test_the_bill_adds_up_to_the_total() -> None:
    rows = table(shown(full_session(), "costs"), "The bill")
    assert rows[-1][2] == "7 m 58 s (measured)"
    # 478 - (61 + 7 x 21.5 + 148 + 44 + 38 + 19) = 17.5
    assert rows[-2][2].startswith("17.5 s")


def test_what_was_kept_for_a_stage_stands_beside_what_it_used() -> None:
    events = full_session()
    confirmed = next(event for event in events if isinstance(event, Confirmed))
    kept = Reserved(
        signature=confirmed.signature, waterfall_s=30, reward_s=120, confirm_s=50, start_up_s=4, wall_left_s=300
    )
    rows = table(shown([*events[:-2], kept, *events[-2:]], "costs"), "Wall time kept for what follows the search")
    assert ["reward test", "2 m 00 s (forecast, priced when the search ended)", "2 m 28 s (measured)"] in rows
    assert ["confirmation", "50.0 s (forecast, priced when the search ended)", "38.0 s (measured)"] in rows
    with pytest.raises(StopIteration):
        table(shown(events, "costs"), "Wall time kept for what follows the search")


def test_the_price_of_a_limit_is_a_forecast_and_says_what_the_owner_set() -> None:
    line = shown(full_session(), "limit_prices").takeaway
    assert line == "moving max_staleness from 1 to 2 would bring 1.12 x (1.01 to 1.23 x, forecast); you set 1"


def test_nan_is_shown_as_nan() -> None:
    assert "NaN x" in shown(nan_session(), "decision").takeaway
    rows = table(shown(nan_session(), "trials"), "Trials, in order")
    assert rows[0][3].startswith("NaN x (NaN to NaN x")
    assert shown(nan_session(), "waterfall").takeaway == "no lever was measured on top of baseline"


def test_a_decision_without_the_end_of_the_session_is_shown_with_that_remark() -> None:
    lines = [
        line for block in shown(full_session()[:-1], "decision").blocks if block.kind == "text" for line in block.lines
    ]
    assert "the journal holds a decision but not the end of the session" in lines


def test_a_report_does_not_depend_on_events_it_cannot_place() -> None:
    events = [event for event in full_session() if not isinstance(event, TrialEnded)]
    assert [card for card in build_report(events).cards if isinstance(card.body, Broken)] == []
