"""Engine work that is no training run: SFT start, cost probe, replays.

`python -m steptune.engine.offline ORDER_JSON PARENT_PID` carries out one order; the result goes to the order's
`out_path`. An error that the user can mend is said in the last line, by kind and sentence, and told by the exit code.

`... --serve PARENT_PID` takes one order a line on stdin until that closes and answers each with a line on stdout:
{"exit_code": 0, "said": ""}. Any other error ends the process, as it ends that of a single order.
"""

import json
import sys
from pathlib import Path

from steptune.core.errors import StepTuneError
from steptune.engine.orders import ORDER, OfflineOrder
from steptune.engine.process import die_with_parent, private_stdout

USER_ERROR = 4
"""Exit code of an order that failed with a `StepTuneError`."""


def main() -> int:
    """Carry out one order, or serve."""
    if sys.argv[1] == "--serve":
        serve(int(sys.argv[2]))
        return 0
    die_with_parent(int(sys.argv[2]))
    exit_code, said = carry_out_one(ORDER.validate_json(sys.argv[1]))
    sys.stdout.write(said)
    return exit_code


def serve(parent_pid: int) -> None:
    """Carry out orders until stdin closes."""
    die_with_parent(parent_pid)
    replies = private_stdout()
    for line in sys.stdin:
        exit_code, said = carry_out_one(ORDER.validate_json(line))
        replies.write(json.dumps({"exit_code": exit_code, "said": said}) + "\n")
        replies.flush()


def carry_out_one(order: OfflineOrder) -> tuple[int, str]:
    """Write the order's result; return its exit code and what it has to say."""
    from steptune.engine.offline_work import carry_out  # torch loads here, after the order is known to be valid

    try:
        done = carry_out(order)
    except StepTuneError as error:
        return USER_ERROR, f"{type(error).__name__}: {' '.join(str(error).split())}\n"
    Path(order.out_path).write_text(done, encoding="utf-8")
    return 0, ""


if __name__ == "__main__":
    sys.exit(main())
