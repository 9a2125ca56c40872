"""Which keys of which framework declare the same thing: `group_size` is `rollout.n` here and `num_generations` there.

The surprise: keys are matched whatever the framework is thought to be, because forks (EasyR1, rLLM) mix spellings
and a paste may hold a config without any other mark. Dashes and underscores are the same, as in argparse.
"""

from functools import cache
from typing import Literal

from steptune.published.table import read_rows

Concept = Literal[
    "prompts_per_step",
    "samples_per_step",
    "group_size",
    "max_completion_len",
    "rollout_tp",
    "num_engines",
    "num_nodes",
    "gpus_per_node",
    "mini_batch",
    "update_epochs",
    "save_every",
    "clip_low",
    "clip_high",
    "top_p",
    "top_k",
    "model",
    "algorithm",
]
"""Things a job declares, under one name for all frameworks."""


def declared_keys(concept: Concept) -> tuple[str, ...]:
    """Return the keys that declare ``concept``, in normal form (see `normal_key`), the strongest first."""
    return _by_concept().get(concept, ())


def normal_key(key: str) -> str:
    """Return ``key`` without leading dashes and with underscores: ``--rollout-batch-size`` and its twin are equal."""
    return key.lstrip("-").replace("-", "_")


@cache
def _by_concept() -> dict[str, tuple[str, ...]]:
    keys: dict[str, list[str]] = {}
    for row in read_rows("declared.csv"):
        known = keys.setdefault(row["concept"], [])
        if (key := normal_key(row["key"])) not in known:
            known.append(key)
    return {concept: tuple(known) for concept, known in keys.items()}
