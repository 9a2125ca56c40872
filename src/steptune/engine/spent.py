"""Seconds of a rollout's two parts, for its trace, and the spans of them."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, final

from steptune.core.phase import Role, SpanKind
from steptune.engine.events import Recorder

Part = Literal["prefill", "decode"]


@final
class Spent:
    """Books spans where there is a recorder; its clock is used then."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder, self._clock = recorder, time.perf_counter if recorder is None else recorder.clock
        self._seconds = dict[str, float](prefill=0.0, decode=0.0)

    @contextmanager
    def booked(self, part: Part) -> Generator[None]:
        """Book the body's seconds; nothing where it raises."""
        start_s = self._clock()
        yield
        end_s = self._clock()
        self._seconds[part] += end_s - start_s
        if self._recorder is not None:
            self._recorder.add(Role.ROLLOUT, f"rollout/{part}", SpanKind.BUSY, start_s, end_s)

    def take(self) -> tuple[float, float]:
        """Return seconds of prefill and decode since the last call."""
        prefill_s, decode_s = self._seconds["prefill"], self._seconds["decode"]
        self._seconds.update(prefill=0.0, decode=0.0)
        return prefill_s, decode_s
