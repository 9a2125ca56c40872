"""Engine work that is no training run: SFT start, cost probe, update-parity replay. One process per order.

`python -m steptune.engine.offline ORDER_JSON`; the result goes to the order's `out_path`.
"""

import sys
from pathlib import Path

from steptune.engine.orders import ORDER


def main() -> int:
    """Carry out one order."""
    order = ORDER.validate_json(sys.argv[1])
    from steptune.engine.offline_work import carry_out  # torch loads here, after the order is known to be valid

    Path(order.out_path).write_text(carry_out(order), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
