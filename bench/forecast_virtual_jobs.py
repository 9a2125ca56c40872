"""The jobs that `forecast_virtual` draws: their truth, which the forecast never sees, and what a log of them holds.

Besides curves with bends and a long tail a job may have what no forecast is told of as such: tool calls of lognormal
length at places of their own, replicas that stand still for a moment in the middle of decoding, and updates that do not
always take as long. A log shows them only as spans, which is what an engine's log does too. The surprise: all of them
move when *groups* become whole, and with it who waits for whom and how old a sample is.
"""

import math
import random
from dataclasses import dataclass, field
from typing import final

from steptune.engine.virtual.costs import MeasuredCosts
from steptune.engine.virtual.work import GroupWork, RowWork, ToolCall, Workload
from steptune.forecast.cluster.work import GroupShape, RowShape, Wait, Work

SPAN_NOISE = 0.03
"""Log standard deviation of every logged span."""

LIMIT = 1024
"""Completion tokens a row may have."""

TOOL_FRAC = 0.7
"""Part of the rows that call a tool, where the job has any."""

TOOL_LOG_SD = 0.8
"""Log standard deviation of a tool's seconds."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One invented job."""

    costs: MeasuredCosts
    median: float
    spread: float
    groups: int
    group_size: int
    prompt: int
    tool_s: float
    """Median seconds of a tool call; 0 is a job without tools."""
    pause_chance: float
    """Of a decode iteration: the replica stands still in it."""
    pause_s: float
    update_log_sd: float
    """Of the optimizer's seconds: updates are not alike."""
    sync_s: float
    reduce_bytes: float


@final
@dataclass(kw_only=True)
class Jittered:
    """`Costs` of the job as they come, pauses and unequal updates included; deterministic by seed."""

    job: Job
    draw: random.Random

    def decode_s(self, num_rows: int) -> float:
        """One decode iteration."""
        paused_s = self.job.pause_s if self.draw.random() < self.job.pause_chance else 0.0
        return self.job.costs.decode_s(num_rows) + paused_s

    def prefill_s(self, num_tokens: int) -> float:
        """Prompt positions computed together."""
        return self.job.costs.prefill_s(num_tokens)

    def train_s(self, num_positions: int) -> float:
        """Forward and backward of one micro-batch."""
        return self.job.costs.train_s(num_positions)

    def optimizer_s(self) -> float:
        """One update: the mean is the job's, whatever the spread."""
        sd = self.job.update_log_sd
        return self.job.costs.optimizer_s() * self.draw.lognormvariate(-sd * sd / 2, sd)


@final
@dataclass(kw_only=True)
class Logged:
    """`Costs` that writes down what it charged, as an engine's log would."""

    costs: Jittered
    noise: random.Random
    decode: list[tuple[int, float]] = field(default_factory=list)
    prefill: list[tuple[float, float]] = field(default_factory=list)
    train: list[tuple[float, float]] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)

    def _seen(self, seconds: float) -> float:
        return seconds * self.noise.lognormvariate(0, SPAN_NOISE)

    def decode_s(self, num_rows: int) -> float:
        """Charge and log."""
        self.decode.append((num_rows, self._seen(seconds := self.costs.decode_s(num_rows))))
        return seconds

    def prefill_s(self, num_tokens: int) -> float:
        """Charge and log."""
        self.prefill.append((num_tokens, self._seen(seconds := self.costs.prefill_s(num_tokens))))
        return seconds

    def train_s(self, num_positions: int) -> float:
        """Charge and log."""
        self.train.append((num_positions, self._seen(seconds := self.costs.train_s(num_positions))))
        return seconds

    def optimizer_s(self) -> float:
        """Charge and log."""
        self.updates.append(self._seen(seconds := self.costs.optimizer_s()))
        return seconds


def draw_job(draw: random.Random) -> Job:
    """Draw a job: curves with bends, a length distribution, and in half of the jobs each tools, pauses, jitter."""
    base, double, bend = draw.uniform(0.004, 0.02), draw.uniform(24, 160), draw.uniform(1.0, 1.3)
    decode = [(n, base * (1 + (n / double) ** bend)) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)]
    per_token, overhead = draw.uniform(2e-4, 1.5e-3), draw.uniform(0.01, 0.08)
    train = [(n, overhead + per_token * n * (1 + n / 60_000)) for n in (1, 256, 1024, 2048, 4096, 8192)]
    prefill = [(n, 0.002 + per_token / 3 * n) for n in (1, 64, 256, 1024, 4096)]
    has_tools, has_pauses, has_jitter = (draw.random() < 0.5 for _ in range(3))
    return Job(
        costs=MeasuredCosts(decode=decode, prefill=prefill, train=train, optimizer=draw.uniform(0.02, 0.2)),
        median=draw.uniform(60, 200),
        spread=draw.uniform(0.3, 1.1),
        groups=draw.choice([16, 24, 32]),
        group_size=draw.choice([4, 8]),
        prompt=draw.choice([16, 64, 128]),
        tool_s=draw.uniform(0.2, 2.0) if has_tools else 0.0,
        pause_chance=draw.uniform(0.002, 0.02) if has_pauses else 0.0,
        pause_s=draw.uniform(0.05, 0.5),
        update_log_sd=draw.uniform(0.2, 1.0) if has_jitter else 0.0,
        sync_s=draw.uniform(0.02, 0.6),
        reduce_bytes=draw.uniform(0.05, 0.4),
    )


def draw_work(job: Job, num_steps: int, seed: int) -> Work:
    """Draw steps of groups of rows with their tool calls."""
    draw = random.Random(seed)
    steps = tuple(tuple(_group(job, draw) for _ in range(job.groups)) for _ in range(num_steps))
    return Work(steps=steps, max_completion=LIMIT)


def truth_work(work: Work) -> Workload:
    """Return the same as the virtual cluster takes it."""
    steps = [[_truth_group(group) for group in step] for step in work.steps]
    return Workload(steps=steps, max_completion=work.max_completion)


def _group(job: Job, draw: random.Random) -> GroupShape:
    own = draw.lognormvariate(0, job.spread / 2)
    tokens = [job.median * own * draw.lognormvariate(0, job.spread * 0.87) for _ in range(job.group_size)]
    rows = tuple(_row(job, draw, min(LIMIT, max(8, round(n)))) for n in tokens)
    return GroupShape(prompt=job.prompt, rows=rows, predicted_tokens=float(sum(r.tokens for r in rows)))


def _row(job: Job, draw: random.Random, tokens: int) -> RowShape:
    if not job.tool_s or draw.random() > TOOL_FRAC:
        return RowShape(tokens=tokens)
    places = sorted(draw.sample(range(1, tokens), draw.choice([1, 2])))
    seconds = [draw.lognormvariate(math.log(job.tool_s), TOOL_LOG_SD) for _ in places]
    waits = tuple(Wait(at_token=at, seconds=s) for at, s in zip(places, seconds, strict=True))
    return RowShape(tokens=tokens, waits=waits)


def _truth_group(group: GroupShape) -> GroupWork:
    rows = tuple(
        RowWork(completion=r.tokens, tools=tuple(ToolCall(at_token=w.at_token, seconds=w.seconds) for w in r.waits))
        for r in group.rows
    )
    return GroupWork(prompt=group.prompt, rows=rows, predicted=float(group.num_tokens))
