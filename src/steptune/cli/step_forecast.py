"""`steptune forecast LOG --on 40`: the step model asked about a pasted log.

Surprise: a log without a question is read as a configuration, and its memory is forecast. `--set` is a question where
it names the work of a log (`group_size`), and a setting of the configuration otherwise.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from steptune.cli.input_files import input_files
from steptune.cli.own_files import RUN_MARK, is_job, run_folder_of
from steptune.cli.show import presentable, print_text
from steptune.cli.streams import print_plain
from steptune.cli.wrong_call import WrongCallError, check_count
from steptune.core.errors import explain, nearest
from steptune.core.paste import Paste
from steptune.forecast.ask.question import CHANGEABLE, GIVEN, Question


def is_asked(args: argparse.Namespace) -> bool:
    """Return whether a flag was given that only the step model answers, or a ``--set`` of a log's work."""
    return _has_flag(args) or (bool(_work_set(args)) and not _is_own(Path(args.targets[0])))


def _has_flag(args: argparse.Namespace) -> bool:
    counts = (args.on, args.max_lag, args.split)
    return bool(args.fewest or args.sweep or args.given) or any(flag is not None for flag in counts)


def _work_set(args: argparse.Namespace) -> list[str]:
    """Names under `--set` that the step model knows; a configuration's own keys have a dot, or other names."""
    return [name for text in args.settings if (name := text.partition("=")[0]) in CHANGEABLE]


def _is_own(target: Path) -> bool:
    """Return whether a target is a job or a run of this tool, whose knobs may have the same names."""
    return target.suffix == ".toml" or run_folder_of(target / RUN_MARK) is not None


def print_answer(args: argparse.Namespace) -> int:
    """Print the answer to the question that the flags ask.

    Raises:
        StepTuneError: the flags contradict each other, or the log lacks what the answer rests on.
    """
    from steptune.forecast.ask.ask import ask
    from steptune.forecast.ask.layout import DeviceCountError
    from steptune.readers.read_paste import read_paste
    from steptune.report.answer_json import answer_json
    from steptune.report.step_text import step_text

    question = question_of(args) if _has_flag(args) else None
    with input_files(args.targets) as paths:
        if own := next((path for path in paths if is_job(path) or run_folder_of(path) is not None), None):
            raise _wrong(
                "this question is asked of a pasted log", f"`{own}`", "logs of a framework", "drop it, or use `--set`"
            )
        paste = read_paste(paths)
        if question is None:
            _check_is_log(args, paste)
            question = question_of(args)
        try:
            answer = presentable(ask(paste, question))
        except DeviceCountError as error:
            raise WrongCallError(str(error)) from error
    if args.json:
        print_plain(answer_json(answer))
    else:
        print_text(step_text(answer))
    return 0


def _check_is_log(args: argparse.Namespace, paste: Paste) -> None:
    """Raise WrongCallError where ``--set`` asks for a log's work and no phase of a step is timed."""
    if paste.phases or (paste.profile is not None and any(role.phases for role in paste.profile.roles)):
        return
    raise _wrong(
        f"`--set {_work_set(args)[0]}` asks about the step of a log with phase times",
        f"`{args.targets[0]}` without phase times",
        f"such a log, or of a configuration (its memory) the framework's own keys in place of {', '.join(CHANGEABLE)}",
        "give the log, or `--set` the key as the configuration spells it",
    )


def question_of(args: argparse.Namespace) -> Question:
    """Return the question.

    Raises:
        WrongCallError: a flag has a value that it cannot have, or two of them contradict each other.
    """
    split = None if args.split is None else _split(args.split)
    counts = {"--on": args.on, "--async": args.max_lag, "--num-devices": args.num_devices}
    for flag, count in counts.items():
        check_count(flag, count)
    if args.device is not None or args.model is not None:
        raise _wrong(
            "`--device` and `--model` are for memory",
            "them beside a question about the step",
            "one of both",
            "ask for the memory in a call of its own",
        )
    if args.fewest and args.sweep:
        raise _wrong("one question at a time", "`--fewest` and `--sweep`", "one of them", "ask twice")
    if split is not None and (args.fewest or args.sweep or args.on is not None):
        raise _wrong(
            "`--split` already says how many devices", f"`{args.split}` and another count", "one", "drop one of them"
        )
    return Question(
        devices=args.on,
        max_lag=args.max_lag,
        split=split,
        wants_fewest=args.fewest,
        wants_sweep=args.sweep,
        measured_devices=args.num_devices,
        given=_numbers("--given", args.given, GIVEN),
        changed=_numbers("--set", args.settings, CHANGEABLE),
    )


def _split(text: str) -> tuple[int, int]:
    train, colon, rollout = text.partition(":")
    if not (colon and train.isdecimal() and rollout.isdecimal() and int(train) and int(rollout)):
        raise _wrong("`--split` is devices that train and devices that generate", f"`{text}`", "TRAIN:ROLLOUT", "`8:8`")
    return int(train), int(rollout)


def _numbers(flag: str, texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            what = f"`{flag}` of a log does not take this"
            hint = nearest(name, names)
            if flag == "--set":
                hint = "one total per side cannot price a knob inside it: try two settings and `steptune compare` them"
            raise _wrong(what, f"`{name}`", ", ".join(names), hint)
        found[name] = _number(flag, name, value)
    return found


def _number(flag: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    is_whole = value == int(value) if math.isfinite(value) else False
    is_part = name == "clipped_frac" and 0 <= value < 1
    is_length = name in ("completion_mean", "completion_max", "prompt_mean") and 0 < value < math.inf
    if not (is_part or is_length or (is_whole and value >= 1)):
        allowed = "a part below 1" if name == "clipped_frac" else "a positive number, whole where it counts things"
        raise _wrong(f"`{flag} {name}` has no such value", f"`{text}`", allowed, f"`{flag} {name}=N`")
    return value


def _wrong(what: str, got: str, allowed: str, hint: str) -> WrongCallError:
    return WrongCallError(explain(what, got=got, allowed=allowed, hint=hint))
