"""What is compared: TRL from its defaults to as well tuned as we can make it, ours synchronous and overlapped.

*As well tuned as we can make it* is found by the same rule on both sides: every candidate here runs one block, the
fastest one becomes the arm and is then measured anew, interleaved with the others.
"""

from itertools import product
from typing import Any

from steptune.core.records import Record


class Arm(Record):
    """One side's settings: ``Arm(name="TRL default", side="trl", settings={})``."""

    name: str
    side: str
    """``trl``: keyword arguments of `GRPOConfig`; ``ours``: fields of `EngineKnobs`."""
    settings: dict[str, Any]


ADVICE = {"bf16": False, "gradient_checkpointing": False}
"""TRL's documentation: no checkpointing where memory allows it; bf16 is advised for GPUs that have it."""

TRL_DEFAULT = Arm(name="TRL default", side="trl", settings={})
TRL_ADVISED = Arm(name="TRL as advised", side="trl", settings={**ADVICE, "per_device_train_batch_size": 16})

TRL_CANDIDATES = tuple(
    Arm(
        name=f"TRL {rows} rows, {'bf16' if bf16 else 'fp32'}",
        side="trl",
        settings={
            "gradient_checkpointing": False,
            "bf16": bf16,
            "per_device_train_batch_size": rows,
        },
    )
    for rows, bf16 in product((16, 64), (False, True))
)
"""In each, one call generates all rollouts (TRL's default), AdamW is fused and there is no old-log-prob pass."""

TRL_COMPILED = Arm(
    name="TRL 64 rows, bf16, compiled",
    side="trl",
    settings={
        "gradient_checkpointing": False,
        "bf16": True,
        "per_device_train_batch_size": 64,
        "torch_compile": True,
        "torch_compile_mode": "default",
    },
)
"""Run only with `--compile`: its first steps take minutes, and every new width compiles again."""

_OURS = {"share_prefill": True, "compact_finished": True, "micro_batch_tokens": 4096}

OUR_CANDIDATES = tuple(
    Arm(
        name=f"ours sync, {layout}, rollout {rollout}, train {train}",
        side="ours",
        settings={**_OURS, "layout": layout, "rollout_dtype": rollout, "train_dtype": train},
    )
    for layout, rollout, train in [
        ("packed", "fp32", "fp32"),
        ("packed", "fp32", "bf16"),
        ("packed", "bf16", "bf16"),
        ("shared_prefix", "fp32", "fp32"),
    ]
)

OVERLAPPED_CANDIDATES = tuple(
    Arm(
        name=arm.name.replace("sync", "overlapped"),
        side="ours",
        settings={**arm.settings, "schedule": "one_step_off", "rollout_threads": 1, "train_threads": 1},
    )
    for arm in OUR_CANDIDATES
)

_STEPS_UP: tuple[tuple[str, dict[str, Any]], ...] = (
    ("our engine, TRL tuned's levers", {"layout": "padded", "micro_batch_tokens": 64 * 160}),
    ("+ rows leave when finished", {"compact_finished": True}),
    ("+ shared prefill", {"share_prefill": True}),
    ("+ packed micro-batches", {"layout": "packed", "micro_batch_tokens": 4096}),
)
"""Levers of the synchronous arm, one more in each row; what the arm adds to the last row is its own share.
64 rows of at most 160 positions are TRL tuned's micro-batch."""


def lever_arms(best: Arm) -> dict[str, Arm]:
    """Return the way from our engine under TRL's levers to ``best``, lever by lever; number formats are ``best``'s."""
    formats = {key: best.settings[key] for key in ("rollout_dtype", "train_dtype")}
    arms, settings = dict[str, Arm](), dict[str, Any](formats)
    for name, more in _STEPS_UP:
        settings = {**settings, **more}
        arms[name] = Arm(name=name, side="ours", settings=settings)
    return arms
