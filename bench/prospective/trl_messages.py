"""What a TRL arm tells of its steps and probes: the profile a forecast is made from, and nothing else."""

from steptune.core.records import Record


class GenerateCall(Record):
    """One call of `generate`: ``GenerateCall(rows=32, prompt_len=21, prefill_s=0.03, seconds=0.61, ...)``."""

    rows: int
    prompt_len: int
    """Positions of the padded prompt."""
    prefill_s: float
    """Until the first token's logits."""
    iterations_s: tuple[float, ...]
    """From each token's logits to the next one's: one decode iteration of all rows, ended ones included."""
    seconds: float


class MicroPass(Record):
    """Forward and backward of one micro-batch: ``MicroPass(rows=8, width=81, forward_s=0.05, layers_s=0.04, ...)``."""

    rows: int
    width: int
    """Positions of a row, padding included."""
    forward_s: float
    layers_s: float
    """Of the forward, from the first layer to the last: what checkpointing repeats. The head and the loss are not."""
    backward_s: float
    """With the forward that checkpointing repeats, where it is on."""


class StepTimes(Record):
    """One optimizer step."""

    step: int
    """Index of its forced lengths."""
    seconds: float
    prepare_s: float
    """Generation, rewards, padding."""
    calls: tuple[GenerateCall, ...]
    micro: tuple[MicroPass, ...]
    optimizer_s: float
    """From the last backward to the end of the step: clipping and AdamW."""


class Probe(Record):
    """Small pieces of the job's own work under one number format and number of threads."""

    bf16: bool
    num_threads: int
    calls: tuple[GenerateCall, ...]
    micro: tuple[MicroPass, ...]
    turned: tuple[MicroPass, ...] = ()
    """One size of `micro` again, checkpointing the other way round; empty in profiles of the first campaign."""


class TrlProfile(Record):
    """What the forecaster sees of one job."""

    settings: dict[str, str | int | float | bool | None]
    group_size: int
    lengths: tuple[tuple[int, ...], ...]
    """Completion lengths of every profiled step."""
    steps: tuple[StepTimes, ...]
    probes: tuple[Probe, ...]
    start_s: float
