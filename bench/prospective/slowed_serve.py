"""A run of the embedded engine with something slow in it: `steptune.engine.serve`, after the engine was tampered with.

Surprise: this module is imported again, as the main one, by every process that the run spawns; so the rollout worker
is disturbed as the trainer is.
"""

# ruff: noqa: ANN401  the engine's own functions are wrapped, whatever they take

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from prospective.job import Disturbance

VARIABLE = "STEPTUNE_BENCH_DISTURBANCE"
"""Environment variable that holds the disturbance, as JSON; empty for none."""


def disturb(what: Disturbance) -> None:
    """Slow the engine's own functions down, in this process."""
    from steptune.engine.produce import Producer
    from steptune.engine.supply import own_engine
    from steptune.engine.trainer import Trainer
    from steptune.engine.weights import FileWeights, SharedWeights

    patches: dict[str, tuple[tuple[object, str, Callable[..., Any]], ...]] = {
        "straggler": ((Trainer, "update", _late),),
        "sync_pause": (
            (FileWeights, "write", _late),
            (SharedWeights, "write", _late),
            (own_engine, "hand_over", _late_but_by_file),
        ),
        "tool_wait": ((Producer, "verify", _waiting_for_tools),),
    }
    for owner, name, slower in patches[what.kind]:
        setattr(owner, name, slower(getattr(owner, name), what.seconds))


def _late(call: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def late(*arguments: Any, **named: Any) -> Any:
        done = call(*arguments, **named)
        time.sleep(seconds)
        return done

    return late


def _late_but_by_file(hand_over: Callable[..., None], seconds: float) -> Callable[..., None]:
    """Return the hand-over inside a process; by file it writes to a channel, which is late already."""

    def late(method: str, *arguments: Any) -> None:
        hand_over(method, *arguments)
        if method != "file":
            time.sleep(seconds)

    return late


def _waiting_for_tools(verify: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Return a verifier that waits ``seconds`` for a whole step's problems, and its share for fewer."""

    def waiting(producer: Any, batch: Any, problems: Sequence[Any]) -> Any:
        time.sleep(seconds * len(problems) / producer.job.algorithm.prompts_per_step)
        return verify(producer, batch, problems)

    return waiting


if os.environ.get(VARIABLE):
    disturb(Disturbance.model_validate_json(os.environ[VARIABLE]))

if __name__ == "__main__":
    from steptune.engine.serve import main

    sys.exit(main())
