import json

from store_events import PACKED, decided, forecasted, session

from steptune.core.decision import Decision
from steptune.core.event import Forecasted
from steptune.store.views import ProfileView, TripwireView, render_views


def test_a_view_appears_with_its_event() -> None:
    events = session()
    assert [*render_views(events[:1])] == []
    assert [*render_views(events[:5])] == ["profile.json", "forecasts.jsonl"]
    assert [*render_views(events)] == ["profile.json", "forecasts.jsonl", "decision.json", "tripwires.json"]


def test_views_repeat_the_events() -> None:
    views = render_views(session())
    profile = ProfileView.model_validate_json(views["profile.json"])
    assert profile.tuned is not None
    lines = views["forecasts.jsonl"].splitlines()
    assert [Forecasted.model_validate_json(line) for line in lines] == [
        *(forecasted(1), forecasted(2), forecasted(1, "waterfall"))
    ]
    assert Decision.model_validate_json(views["decision.json"]) == decided().decision


def test_tripwires_carry_the_way_back() -> None:
    view = TripwireView.model_validate(json.loads(render_views(session())["tripwires.json"]))
    assert (view.job, view.signature, view.back_to) == ("tiny", PACKED.signature, {"layout": "padded"})
    assert view.tripwires == decided().decision.tripwires
