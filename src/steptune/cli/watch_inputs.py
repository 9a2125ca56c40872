"""What `steptune watch` was given: logs of the running job, and perhaps the run folder it is held against.

Surprise: a run folder says nothing of the running job and a log nothing of the decision, so a tuning session's folder
alone is refused; the folder of a `steptune train` is a log of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pydantic import ValidationError

from steptune.cli.training_run import TRAINING
from steptune.cli.wrong_call import WrongCallError
from steptune.core.decision import Decision, Tripwire
from steptune.core.errors import StoreError, explain
from steptune.core.knob import KnobValue
from steptune.store.run_folder import RunFolder
from steptune.store.views import TripwireView
from steptune.watch.promise import wires_of


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class WatchInputs:
    """The targets, sorted."""

    logs: tuple[str, ...]
    """Names as given; folders stand for the files in them at every look."""
    training: Path | None = None
    """`training.json` of a `steptune train`, instead of logs."""
    wires: tuple[Tripwire, ...] = ()
    back_to: dict[str, KnobValue]
    """The baseline's settings, to return to."""
    notes: tuple[str, ...] = ()


def watch_inputs(targets: Sequence[str]) -> WatchInputs:
    """Sort the targets of the command line.

    Raises:
        WrongCallError: no log, two run folders, or logs beside a training run.
        StoreError: the run folder has no decision yet, or its files were edited.
    """
    runs = [name for name in targets if (Path(name) / "version.json").is_file()]
    trainings = [name for name in targets if name not in runs and (Path(name) / TRAINING).is_file()]
    logs = tuple(name for name in targets if name not in (*runs, *trainings))
    if len(runs) > 1 or len(trainings) > 1 or bool(trainings) == bool(logs):
        raise WrongCallError(
            explain(
                "`steptune watch` holds one running job against at most one run folder",
                got=f"{len(runs)} run folders, {len(trainings)} training runs, {len(logs)} logs",
                allowed="logs of one job or the folder of one `steptune train`, and one run folder or none",
                hint="`steptune watch train.log runs/NAME-TIME`",
            )
        )
    wires, back_to, notes = _held_against(Path(runs[0])) if runs else ((), {}, (NO_RUN,))
    training = Path(trainings[0]) / TRAINING if trainings else None
    return WatchInputs(logs=logs, training=training, wires=wires, back_to=back_to, notes=notes)


NO_RUN = "no run folder was given: health and stalls alone are watched"


def _held_against(path: Path) -> tuple[tuple[Tripwire, ...], dict[str, KnobValue], tuple[str, ...]]:
    folder = RunFolder.open(path)
    try:
        decision = Decision.model_validate_json((folder.path / "decision.json").read_bytes())
        view = TripwireView.model_validate_json((folder.path / "tripwires.json").read_bytes())
    except FileNotFoundError as error:
        raise StoreError(
            explain(
                f"`{path}` holds no decision to watch",
                got="no `decision.json`",
                allowed="a session that ended",
                hint=f"`steptune tune --resume {path}` goes on with it; the log alone can be watched for health",
            )
        ) from error
    except ValidationError as error:
        hint = "`steptune report` reads the journal, which is the source of truth; restore the file from a copy"
        what = f"`{path}` has an edited `decision.json` or `tripwires.json`"
        raise StoreError(
            explain(what, got=f"{error.error_count()} bad fields", allowed="them as written", hint=hint)
        ) from error
    wires = wires_of(decision)
    unchanged = f"the decision is {decision.outcome}: it has no trip-wires, health and stalls alone are watched"
    return wires, view.back_to, () if wires else (unchanged,)
