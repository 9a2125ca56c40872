"""Engine work that is no training run: SFT start, cost probe, update-parity replay. One process per order.

`python -m steptune.engine.offline ORDER_JSON`; the result goes to the order's `out_path`. An error that the user can
mend is said in the last line, by kind and sentence, and told by the exit code.
"""

import sys
from pathlib import Path

from steptune.core.errors import StepTuneError
from steptune.engine.orders import ORDER

USER_ERROR = 4
"""Exit code of an order that failed with a `StepTuneError`."""


def main() -> int:
    """Carry out one order."""
    order = ORDER.validate_json(sys.argv[1])
    from steptune.engine.offline_work import carry_out  # torch loads here, after the order is known to be valid

    try:
        done = carry_out(order)
    except StepTuneError as error:
        sys.stdout.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n")
        return USER_ERROR
    Path(order.out_path).write_text(done, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
