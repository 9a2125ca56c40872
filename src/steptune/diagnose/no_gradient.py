"""Rewards differ and yet the gradient is exactly 0: what is learnt from is lost between reward and weights.

The surprise: a norm of 0 may also be one that is not reported. Some versions of DeepSpeed hand 0 to the trainer
(https://github.com/modelscope/ms-swift/issues/5571), so it is a warning to look, not the end of a run.
"""

from steptune.core.finding import Evidence, Finding, Severity
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.vitals import RECENT, health_finding

UNROUNDED_KEYS = ("grad_norm",)
"""Keys under which the whole number is printed (Hugging Face's Trainer); verl's 0.000 may be 0.0004."""


def no_gradient(job: Job) -> Finding | None:
    """Find a gradient norm of exactly 0 in all of the last steps, in each of which rewards did differ."""
    norm, spread = job.series("grad_norm"), job.series("reward_std")
    if norm is None or spread is None or norm.key not in UNROUNDED_KEYS:
        return None
    norms, spreads = norm.finite()[-RECENT:], spread.finite()[-RECENT:]
    if len(norms) != len(spreads) or any(norms) or not all(value > 0 for value in spreads):
        return None
    here = "the one step that is" if len(norms) == 1 else f"{len(norms)} steps that are"
    title = (
        f"The gradient norm is exactly 0 in {here} here although rewards differ: the gradient is lost, or its norm is "
        f"not reported; check that weights change"
    )
    facts = tuple(Evidence(text=f"{s.key} {s.finite()[-1]:g}", origin=origin_of(s)) for s in (norm, spread))
    return health_finding("no_gradient", title, facts, Severity.WARNING)
