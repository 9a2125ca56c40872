"""What a public row says of phases in absolute seconds: only rows that state their lengths, or trainers on full packs.

Surprise: most rows with phases say nothing of their lengths, and a time without the work is no evidence.
"""

from collections.abc import Iterable

from steptune.forecast.public.fit import PhaseEvidence
from steptune.forecast.public.job import PROMPT_TOKENS, CannotReadError, read
from steptune.forecast.public.schedule import Phase
from steptune.published.public_run import PublicRun

FAKE_DATA = "RL trainer step (fake data)"
"""prime-rl's benchmark of its RL trainer: every micro-batch is a full pack."""


def trainer_row(run: PublicRun) -> PublicRun | None:
    """Return a row of prime-rl's trainer benchmark as a step of full packs; None for any other, and for adapters."""
    packs, length = run.other_settings.get("micro_batches"), run.other_settings.get("seq_len")
    if run.algorithm != FAKE_DATA or not isinstance(packs, int) or not isinstance(length, int):
        return None
    if "lora_rank" in run.other_settings or run.n_gpus is None:
        return None
    step = {
        "placement": "disaggregated",
        "gpus_rollout": 1.0,
        "prompts_per_step": packs * run.n_gpus,
        "group_size": 1.0,
        "mean_response_len": float(length - PROMPT_TOKENS),
        "max_response_len": float(length),
        "micro_batch": f"dynamic {length}",
        "other_settings": {**run.other_settings, "optim_steps_per_step": 1},
    }
    return run.model_copy(update=step)


def phases_of(run: PublicRun) -> Iterable[PhaseEvidence]:
    """Yield the phases that a row states in seconds; none where lengths, batch or model had to be assumed."""
    try:
        job = read(run, run)
    except CannotReadError:
        return
    if job.assumed:
        return
    passes = None if run.logprob_s is None else run.logprob_s + (run.ref_s or 0.0)
    timed: tuple[tuple[Phase, float | None], ...] = (
        ("generation", run.full_gen_s),
        ("logprob", passes),
        ("train", run.train_s),
    )
    for phase, seconds in timed:
        if seconds:
            yield PhaseEvidence(group=run.job_group or run.id.split("-")[0], job=job, phase=phase, seconds=seconds)
