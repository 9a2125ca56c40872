"""Files of a run folder that only repeat the journal in a handier form. Pure: events in, texts out.

They can be thrown away and written again at any time; nothing in steptune decides by them.
"""

from collections.abc import Iterable

from steptune.core.decision import Tripwire
from steptune.core.event import Event
from steptune.core.knob import KnobValue
from steptune.core.profile import Profile
from steptune.core.records import Record, canonical_json
from steptune.store.replay import fold


class ProfileView(Record):
    """`profile.json`: the baseline with its noise floor, and the tuned job once it is measured."""

    baseline: Profile
    tuned: Profile | None


class TripwireView(Record):
    """`tripwires.json`, for `steptune watch`: what to look out for in the tuned job, and the way back."""

    job: str
    """Name of the job."""
    signature: str
    """Signature of the change that was decided on."""
    tripwires: tuple[Tripwire, ...]
    back_to: dict[str, KnobValue]
    """The baseline's settings."""


def render_views(events: Iterable[Event]) -> dict[str, str]:
    """Return the text of every view that ``events`` suffice for, by file name.

    Raises:
        StoreError: the events are not a session's.
    """
    events = tuple(events)
    state = fold(events)
    texts: dict[str, str] = {}
    if state.baseline is not None:
        texts["profile.json"] = _pretty(ProfileView(baseline=state.baseline, tuned=state.tuned))
    forecasts = [canonical_json(event) + "\n" for event in events if event.kind == "forecasted"]
    if forecasts:
        texts["forecasts.jsonl"] = "".join(forecasts)
    if state.decision is not None and state.started is not None:
        texts["decision.json"] = _pretty(state.decision)
        texts["tripwires.json"] = _pretty(
            TripwireView(
                job=state.started.job.name,
                signature=state.decision.change.signature,
                tripwires=state.decision.tripwires,
                back_to={lever.knob: lever.value for lever in state.started.baseline_levers},
            )
        )
    return texts


def _pretty(record: Record) -> str:
    return record.model_dump_json(indent=2) + "\n"
