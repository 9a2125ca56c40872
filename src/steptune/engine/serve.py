"""A run that waits for orders: `python -m steptune.engine.serve RUN.json FOLDER`.

Orders come as JSON lines on stdin, answers go as JSON lines to the stdout this process was started with
(anything a library prints goes to stderr instead)::

    {"order": "steps", "num_steps": 4, "rehearse_s": 0}  ->  {"answer": "steps", "observations": [...]}
    {"order": "evaluate"}                                ->  {"answer": "evaluate", "result": {...}}
    {"order": "lengths"}                                 ->  {"answer": "lengths", "lengths": {...}}
    {"order": "save", "folder": "..."}                   ->  {"answer": "save", "refused": null or why not}
    end of input                                         ->  the process leaves

An error is answered with {"answer": "error", ...} and ends the process. `STACK_SIGNAL` prints the stack to stderr.
"""

import faulthandler
import json
import sys
import traceback
from pathlib import Path
from typing import IO, Literal

from pydantic import TypeAdapter

from steptune.core.job import JobSpec, PositiveInt
from steptune.core.profile import SampledLengths
from steptune.core.records import Record
from steptune.engine.knobs import EngineKnobs
from steptune.engine.out_of_memory import is_out_of_memory, told
from steptune.engine.process import die_with_parent, private_stdout
from steptune.engine.where import STACK_SIGNAL


class RunFile(Record):
    """What a run is started with."""

    job: JobSpec
    knobs: EngineKnobs
    seed: int
    forced_lengths: SampledLengths | None
    capture_batches: int
    start_path: str
    """File with the SFT start."""
    parent_pid: int
    checkpoint_every: PositiveInt | None = None
    """Steps between two checkpoints; None saves none."""
    resume: bool = False
    """Go on from the folder's newest whole checkpoint."""


class StepsOrder(Record):
    """Run some steps."""

    order: Literal["steps"] = "steps"
    num_steps: int
    rehearse_s: float = 0.0
    """Seconds of rehearsal before the first of them; see `core.framework.Session.run_steps`."""


class OtherOrder(Record):
    """Evaluate the current weights, or return the lengths so far."""

    order: Literal["evaluate", "lengths"]


class SaveOrder(Record):
    """Write the current weights as a folder that transformers loads."""

    order: Literal["save"] = "save"
    folder: str


ORDERS: TypeAdapter[StepsOrder | SaveOrder | OtherOrder] = TypeAdapter(StepsOrder | SaveOrder | OtherOrder)


def main() -> int:
    """Serve orders until stdin closes."""
    run = RunFile.model_validate_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    die_with_parent(run.parent_pid)
    faulthandler.register(STACK_SIGNAL, all_threads=False)
    replies = private_stdout()
    try:
        _serve(run, Path(sys.argv[2]), replies)
    except Exception as error:  # noqa: BLE001  process edge: the cause is handed to whoever gave the order
        if is_out_of_memory(error):
            text = told(error, traceback.format_exc(), run.knobs)
            _say(replies, answer="error", kind="out_of_memory", text=text)
            return 3
        _say(replies, answer="error", kind=type(error).__name__, text=str(error))
        return 1
    return 0


def _serve(run: RunFile, folder: Path, replies: IO[str]) -> None:
    from steptune.engine.run import Run  # torch loads here, after the pipe is known to work

    engine_run = Run(run, folder)
    try:
        for problem in engine_run.problems:
            sys.stderr.write(problem + "\n")
        _say(replies, answer="ready")
        for line in sys.stdin:
            order = ORDERS.validate_json(line)
            if isinstance(order, StepsOrder):
                if order.rehearse_s > 0:
                    engine_run.rehearse(order.rehearse_s)
                made = [engine_run.step() for _ in range(order.num_steps)]
                engine_run.settle()
                _say(replies, answer="steps", observations=[o.model_dump(mode="json") for o in made])
            elif isinstance(order, SaveOrder):
                _say(replies, answer="save", refused=engine_run.save_model(Path(order.folder)))
            elif order.order == "evaluate":
                _say(replies, answer="evaluate", result=engine_run.evaluate().model_dump(mode="json"))
            else:
                _say(replies, answer="lengths", lengths=engine_run.lengths().model_dump(mode="json"))
    finally:
        engine_run.close()


def _say(replies: IO[str], **answer: object) -> None:
    replies.write(json.dumps(answer) + "\n")
    replies.flush()


if __name__ == "__main__":
    sys.exit(main())
