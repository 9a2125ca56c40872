"""The batch is padded to its longest sequence, as a log says by its padded length beside the mean lengths."""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.core.profile import SummaryLengths
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, mean_of, origin_of

UNPADDED_KEYS = (
    "actor_rollout_ref.model.use_remove_padding",
    "actor_rollout_ref.actor.megatron.use_remove_padding",
    "policy.sequence_packing.enabled",
    "trainer.remove_microbatch_padding",
    "trainer.use_sample_packing",
)
"""Settings that, when true, keep padding out of the trainer, whatever the batch looks like."""


def padded_batch(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find training and log-prob time spent on padding, taking time as proportional to positions."""
    padded, mean_len = job.series("padded_len"), _mean_len(job)
    if job.profile is None or step_s is None or padded is None or mean_len is None or _is_packed(job):
        return None
    padded_len = mean_of(padded)
    if not 0 < mean_len <= padded_len:
        return None
    waste_frac = 1 - mean_len / padded_len
    train_s = cost_s(job.profile, Phase.TRAIN, Phase.OLD_LOGPROB, Phase.REF_LOGPROB)
    if not is_worth_a_name(waste_frac * train_s, step_s, threshold):
        return None
    text = (
        f"rows are padded to {padded_len:.0f} tokens and hold {mean_len:.0f} on average: "
        f"{waste_frac:.0%} of {said(train_s)} of training and log-probs"
    )
    return Cause(
        kind=BottleneckKind.PADDING_WASTE,
        subject="padding",
        text=text,
        facts=(Evidence(text=f"{padded.key} {padded_len:g}", origin=origin_of(padded)),),
        cost_s=waste_frac * train_s,
        step_s=step_s,
    )


def _mean_len(job: Job) -> float | None:
    lengths = job.profile.lengths if job.profile else None
    if not isinstance(lengths, SummaryLengths) or lengths.completion_mean is None or lengths.prompt_mean is None:
        return None
    return lengths.prompt_mean + lengths.completion_mean


def _is_packed(job: Job) -> bool:
    return any(key in job.settings and job.settings[key].value is True for key in UNPADDED_KEYS)
