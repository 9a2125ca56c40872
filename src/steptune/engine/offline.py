"""Engine work that is no training run: SFT start, cost probe, update-parity replay. One process per order.

`python -m steptune.engine.offline ORDER_JSON`; the result goes to the order's `out_path`.
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import JobSpec
from steptune.core.records import Record


class StartOrder(Record):
    """Make sure that the SFT start is cached; writes its path."""

    order: Literal["start"] = "start"
    job: JobSpec
    cache_dir: str
    out_path: str


class ProbeOrder(Record):
    """Measure primitive costs; writes a list of cost curves."""

    order: Literal["probe"] = "probe"
    job: JobSpec
    out_path: str


class ReplayOrder(Record):
    """Replay recorded batches through trainers; writes a list of parity outputs."""

    order: Literal["replay"] = "replay"
    job: JobSpec
    inputs: tuple[ParityInput, ...]
    folder: str
    out_path: str


class DistanceOrder(Record):
    """Compare two replays; writes one number."""

    order: Literal["distance"] = "distance"
    a: ParityOutput
    b: ParityOutput
    out_path: str


OfflineOrder = Annotated[StartOrder | ProbeOrder | ReplayOrder | DistanceOrder, Field(discriminator="order")]

ORDER: TypeAdapter[OfflineOrder] = TypeAdapter(OfflineOrder)


def main() -> int:
    """Carry out one order."""
    order = ORDER.validate_json(sys.argv[1])
    from steptune.engine.offline_work import carry_out  # torch loads here, after the order is known to be valid

    Path(order.out_path).write_text(carry_out(order), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
