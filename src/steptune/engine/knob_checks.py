"""Knobs that the trainer cannot follow, refused before it starts. The tuner asks `adapters.embedded.conflicts`."""

from steptune.core.errors import JobError, explain
from steptune.core.job import AlgorithmSpec
from steptune.core.model import ModelSpec
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan_shared import can_share_prompts


def check_knobs(knobs: EngineKnobs, algorithm: AlgorithmSpec, model: ModelSpec) -> None:
    """Refuse knobs that do not fit.

    Raises:
        JobError: several updates per rollout batch without a separate old-log-prob pass, `offload` without
            `recompute`, or a shared prefix with recurrent layers.
    """
    if algorithm.num_updates > 1 and knobs.logprob_batch_tokens is None:
        raise JobError(
            explain(
                "`logprob_batch_tokens` must be set when `algorithm.num_updates` is above 1",
                got=None,
                allowed="a positive number of tokens",
                hint=f"set it to `micro_batch_tokens` ({knobs.micro_batch_tokens}), or use one update",
            )
        )
    if knobs.offload and not knobs.recompute:
        raise JobError(
            explain(
                "`offload` moves what `recompute` keeps",
                got="`offload` without `recompute`",
                allowed="both, or neither",
                hint="set `recompute` too",
            )
        )
    if knobs.layout == "shared_prefix" and not can_share_prompts(model):
        raise JobError(
            explain(
                "`layout` does not fit the model: a recurrent layer's state cannot fork in the middle of a sequence",
                got="shared_prefix with a hybrid model",
                allowed="padded, sorted or packed",
                hint="use packed",
            )
        )
