"""What the cards share."""

from report_sessions import full_session

from steptune.report.session_view import added_text, view_session


def test_a_lever_that_was_pruned_is_marked_and_one_that_was_kept_is_not() -> None:
    view = view_session(full_session())
    assert view.decision is not None
    row = view.waterfalls[-1].rows[1]
    kept = row.model_copy(update={"added": str(view.decision.change.moves[0])})
    assert added_text(view, kept) == kept.added
    gone = row.model_copy(update={"added": "handover: file -> copy"})
    assert added_text(view, gone) == "handover: file -> copy (taken out again: no gain of its own)"
