"""One look at a running job: readers, diagnosis, wires and rhythm meet here.

Surprise: a look reads the log again from its beginning. That is what makes rotations, restarts and lines that were
half written at the last look nothing special; `watch_command` waits longer where reading takes long.
"""

from collections.abc import Mapping
from pathlib import Path

from steptune.cli.answer import answer
from steptune.cli.input_files import input_files
from steptune.cli.log_files import FileState, last_lines
from steptune.cli.watch_inputs import WatchInputs
from steptune.core.errors import ReadError, explain
from steptune.core.finding import Diagnosis, Finding, FindingKind, Severity
from steptune.core.paste import Paste
from steptune.core.training import Training
from steptune.core.watched import Alarm, AlarmKind, Watched
from steptune.diagnose.paste import diagnose_paste
from steptune.memory.classify import phase_of
from steptune.watch.attempts import crash_loop
from steptune.watch.own_start import judge_by_start
from steptune.watch.own_training import training_paste
from steptune.watch.stall import allowed_silence_s, last_step, stall
from steptune.watch.wires import judge_wires

SICK = (FindingKind.HEALTH, FindingKind.MISMATCH, FindingKind.MEMORY)
"""Kinds of finding that are about the run itself; a fault of the configuration was there before."""

RESTARTED = "steps start again"
"""How the readers' note on a restart begins."""


def look(inputs: WatchInputs) -> Diagnosis:
    """Read the job's files and diagnose them.

    Raises:
        ReadError: a file cannot be read.
    """
    if inputs.training is not None:
        return diagnose_paste(_training(inputs.training))
    with input_files(inputs.logs) as paths:
        return answer(paths)


def judge(
    diagnosis: Diagnosis,
    inputs: WatchInputs,
    *,
    silent_s: float,
    told_s: float | None,
    states: Mapping[Path, FileState],
) -> Watched:
    """Return what to say of a job that was silent for ``silent_s``; ``told_s`` is the user's own `--stall`."""
    paste = diagnosis.paste
    judged = [*judge_wires(paste, inputs.wires), *judge_by_start(paste, inputs.wires)]
    alarms = [one.alarm for one in judged if one.alarm is not None]
    alarms += [_sick(finding) for finding in diagnosis.findings if _is_sick(finding)]
    alarms += [alarm for alarm in (crash_loop(paste), _stall(paste, silent_s, told_s, states)) if alarm is not None]
    unjudged = {one.wire.metric: one.why_unjudged for one in judged if one.why_unjudged}
    broken = {alarm.metric for alarm in alarms}
    held = (one.wire.metric for one in judged if not one.alarm and not one.why_unjudged)
    return Watched(
        alarms=tuple(alarms),
        held=tuple(metric for metric in dict.fromkeys(held) if metric not in broken),
        unjudged=tuple(f"{metric}: {why}" for metric, why in unjudged.items()),
        last_step=last_step(paste),
        num_steps=paste.num_steps_seen,
        notes=tuple(note.text for note in paste.notes if note.text.startswith(RESTARTED)),
    )


def _stall(paste: Paste, silent_s: float, told_s: float | None, states: Mapping[Path, FileState]) -> Alarm | None:
    last = last_lines(states) if paste.framework != "steptune" else []
    allowed_s = allowed_silence_s(paste, told_s=told_s)
    return stall(paste, silent_s=silent_s, allowed_s=allowed_s, named_phase=phase_of("\n".join(last)), last=last)


def _is_sick(finding: Finding) -> bool:
    return finding.severity is Severity.FAULT and finding.kind in SICK


def _sick(finding: Finding) -> Alarm:
    origin = next((evidence.origin for evidence in finding.evidence if evidence.origin is not None), None)
    action = finding.remedies[0].text if finding.remedies else "stop it and read `steptune diagnose` on this log"
    return Alarm(kind=AlarmKind.HEALTH, metric=finding.code, text=finding.title, origin=origin, action=action)


def _training(path: Path) -> Paste:
    try:
        return training_paste(Training.model_validate_json(path.read_bytes()), str(path))
    except (OSError, ValueError) as error:
        what = f"`{path}` cannot be read"
        hint = "give the folder that `steptune train` named"
        raise ReadError(
            explain(what, got=type(error).__name__, allowed="the record of a training run", hint=hint)
        ) from error
