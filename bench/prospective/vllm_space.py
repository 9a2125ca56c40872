"""vLLM's jobs: one batch of forced lengths at a time, under limits of rows and cache.

Only rollout: a step is the makespan of its batch. Surprise: a cache may be small enough to throw rows out again; what a
row costs then is what is forecast.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from prospective.job import Job
from prospective.space import Space
from prospective.step_lengths import num_rows
from steptune.core.knob import KnobValue
from steptune.core.model import DenseModel

BLOCK = 32
"""Tokens per block of the cache."""

VOCAB, EOS, PAD = 512, 2, 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A model and the prompts that it is given."""

    spec: DenseModel
    prompt_len: int
    """Tokens; one more than whole blocks, so that a group's prompt is shared but for its last token, or below one."""


_SMALL = DenseModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=768)
_DEEP = DenseModel(num_layers=8, d_model=256, num_heads=8, num_kv_heads=8, d_ff=512)

MODELS = {
    "short prompts": Served(spec=_SMALL, prompt_len=25),
    "long prompts": Served(spec=_DEEP, prompt_len=193),
}

KNOBS: dict[str, tuple[KnobValue, ...]] = {
    "max_num_seqs": (8, 16, 48),
    "kv_frac": (None, 0.5, 0.2),
    "prefix_caching": (False, True),
    "client_rows": (None, None, 6, 12),
    "order": ("arrival", "longest_first"),
}
"""`kv_frac`: blocks as a part of what all rows of a batch need at their longest. `client_rows`: requests on their way
at once. `order`: as the prompts come, or groups with the longest row first (lengths that a router has learnt)."""

SERVER_KNOBS = ("max_num_seqs", "kv_frac", "prefix_caching")
"""Fixed at a server's start."""


def num_blocks(job: Job, kv_frac: KnobValue) -> int:
    """Return the blocks of the cache: never fewer than one longest row needs, and one that vLLM keeps for itself."""
    assert kv_frac is None or isinstance(kv_frac, float)
    per_row = -(-(MODELS[job.model].prompt_len + job.lengths.longest) // BLOCK)
    return max(per_row, round(per_row * num_rows(job) * (1.0 if kv_frac is None else kv_frac))) + 1


def problem(job: Job, settings: Mapping[str, KnobValue]) -> str | None:
    """Return why a configuration is none: fewer requests than the server's rows, or no limit of the client."""
    at_once, most = settings["client_rows"], settings["max_num_seqs"]
    assert isinstance(most, int)
    if isinstance(at_once, int) and at_once >= most:
        return f"{at_once} requests on their way limit nothing beside {most} rows"
    return None


SPACE = Space(
    engine="vllm",
    num_jobs=4,
    models=tuple(MODELS),
    prompts=(6, 12),
    group_sizes=(4,),
    medians=(16.0, 32.0),
    sigmas=(0.4, 0.8),
    longest=(128,),
    knobs=KNOBS,
    disturbances=(None,),
    problem=problem,
)
"""4 jobs, 20 trials."""
