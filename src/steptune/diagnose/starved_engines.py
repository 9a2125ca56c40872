"""Engines that wait for requests: generation takes far longer than decoding on these devices ever does.

One decode iteration makes one position of every row and reads all weights once. So seconds of rollout / longest
completion is the time of an iteration, and weight bytes / memory bandwidth its floor::

    0.6B in bf16 on an H200:   1.2e9 B / 4.8e12 B/s = 0.25 ms      floor
    245 s for 1,024 positions:                        240 ms       960 times the floor (slime #385)

Kernels, launches, attention and a few waves of requests cost tens of floors; hundreds mean that the devices idle while
the client, the router or Python is busy. Faster kernels do not help then.
"""

from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.core.profile import SummaryLengths
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, model_billions, num_engines, samples_per_step, setting_text
from steptune.hardware.devices import GIGA, find_device

BF16_BYTES = 2.0
"""Bytes of one weight."""

MAX_FLOORS = 200.0
"""Multiples of the floor from which the devices must be idle: eager kernels of 0.5B models cost about 60 (V01), and
a few waves of requests multiply that. Prior."""

MIN_ROWS, MAX_ROWS = 8.0, 1024.0
"""Rows an engine for which the reckoning holds: fewer is a small batch, more are many waves."""


def starved_engines(job: Job) -> tuple[float, str, tuple[Evidence, ...]] | None:
    """Return the idle part of generation, a sentence and its facts; None where a number is missing or all is well."""
    claim, billions = job.paste.devices, model_billions(job)
    device = find_device(claim.name) if claim is not None and claim.name else None
    positions, samples, engines = _positions(job), samples_per_step(job), num_engines(job)
    if device is None or device.hbm_gbyte_per_s is None or job.profile is None or job.profile.schedule == "async":
        return None
    if billions is None or positions is None or samples is None or engines is None:
        return None
    if not MIN_ROWS <= samples / engines <= MAX_ROWS:
        return None
    floor_s = billions * GIGA * BF16_BYTES / (device.hbm_gbyte_per_s * GIGA * (job.positive("rollout_tp") or 1.0))
    iteration_s = cost_s(job.profile, Phase.ROLLOUT) / positions
    if not iteration_s > MAX_FLOORS * floor_s > 0:
        return None
    text = (
        f"{said(iteration_s)} for one decode iteration, {iteration_s / floor_s:.0f} times what reading "
        f"{billions:g}B weights takes on a {device.name}: requests do not reach the engines fast enough"
    )
    settings = [job.declared("max_completion_len"), job.declared("prompts_per_step"), job.declared("group_size")]
    facts = tuple(Evidence(text=setting_text(s), origin=s.origin) for s in settings if s is not None)
    return 1 - MAX_FLOORS * floor_s / iteration_s, text, facts


def _positions(job: Job) -> float | None:
    """The longest completion, else the limit: the most positions that an iteration can be for."""
    lengths = job.profile.lengths if job.profile else None
    longest = lengths.completion_max if isinstance(lengths, SummaryLengths) else None
    return longest if longest else job.positive("max_completion_len")
