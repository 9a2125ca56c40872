"""vLLM's half of the campaign: profile one server, forecast, and let two servers take turns batch by batch.

Surprise: a candidate that only changes what the client does (rows on their way, order) has a server of its own all the
same, so that every trial compares two launches.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import fmean
from typing import final

from prospective import vllm_forecast
from prospective.backend import PairTimes, Settled, Told
from prospective.job import Job, Moves
from prospective.step_lengths import PERIOD_STEPS, num_rows, step_lengths
from prospective.vllm_messages import BatchTimes, RowsProbe, VllmProfile
from prospective.vllm_server import Server
from prospective.vllm_space import BLOCK, MODELS, num_blocks

PROFILE_STEPS = 2 * PERIOD_STEPS
"""Batches of a profile: its level, which two of each lengths know better than one."""

WIDTHS = (1, 2, 4, 8, 16, 32, 64)
"""Rows of the decoding probes, as many as the server takes."""

SHORT_PROMPT = 8
"""Tokens of the probes' short prompts: below one block."""

PROBE_TOKENS = 24
"""That each row of a decoding probe makes."""

REPEATS = 2
"""Times that each probe is run; the first one of a width pays for its buffers."""

NUM_BLOCKS = 4
"""Blocks of a trial on each side, half a period of lengths each: every length is run twice, once in either order."""

STRIDE = 1000
"""Steps between two trials' prompts, a whole number of periods: no prompt was seen before."""


@final
class VllmHalf:
    """vLLM's CPU build as a rollout engine."""

    profile_type = VllmProfile

    def __init__(self) -> None:
        self._open = ExitStack()
        self._incumbent: tuple[str, Server] | None = None

    def profile(self, job: Job) -> VllmProfile:
        """Run two periods of batches for their level, then equal rows in several numbers for the prices."""
        server, settings = self._resident(job), job.settings({})
        batches = [server.run(PERIOD_STEPS + step, settings) for step in range(PROFILE_STEPS)]
        return VllmProfile(
            settings=settings,
            prompt_len=MODELS[job.model].prompt_len,
            num_blocks=num_blocks(job, settings["kv_frac"]),
            lengths=tuple(tuple(step_lengths(job, batch.step)) for batch in batches),
            batches=tuple(batches),
            probes=tuple(_probes(server, job)),
            start_s=server.start_s,
        )

    def forecast(self, told: Job, profile: VllmProfile, settled: Sequence[Settled], moves: Moves) -> Told:
        """See `vllm_forecast`."""
        return vllm_forecast.forecast(told, profile, settled, moves)

    def pair(self, job: Job, moves: Moves) -> PairTimes:
        """Run a candidate's server beside the incumbent's."""
        return self._trial(job, moves, STRIDE * (1 + job.candidates.index(moves)))

    def same(self, job: Job) -> PairTimes:
        """Run the incumbent beside a second server of its kind."""
        return self._trial(job, {}, STRIDE * (1 + len(job.candidates)))

    def close(self) -> None:
        """Stop what is resident."""
        self._open.close()
        self._incumbent = None

    def _resident(self, job: Job) -> Server:
        """Return the job's incumbent, started and warm."""
        if self._incumbent is None or self._incumbent[0] != job.name:
            self.close()
            server = Server(job, {})
            self._open.callback(server.close)
            _warm(server, job.settings({}))
            self._incumbent = job.name, server
        return self._incumbent[1]

    def _trial(self, job: Job, moves: Moves, first: int) -> PairTimes:
        began_s = time.monotonic()
        incumbent = self._resident(job)
        candidate = Server(job, moves)
        sides = ((incumbent, job.settings({})), (candidate, job.settings(moves)))
        made: tuple[list[list[BatchTimes]], list[list[BatchTimes]]] = [], []
        try:
            _warm(candidate, job.settings(moves))
            started_s = time.monotonic() - began_s
            for number in range(NUM_BLOCKS):
                for side in _turns(number):
                    server, settings = sides[side]
                    server.rest()
                    made[side].append([server.run(first + step, settings) for step in _steps(number)])
        finally:
            candidate.close()
        thrown = [fmean(batch.num_preemptions for block in own for batch in block) for own in made]
        incumbent_s, candidate_s = (_seconds(own) for own in made)
        return PairTimes(
            incumbent_s=incumbent_s,
            candidate_s=candidate_s,
            incumbent_phases_s={vllm_forecast.ROLLOUT: fmean(s for block in incumbent_s for s in block)},
            candidate_phases_s={vllm_forecast.ROLLOUT: fmean(s for block in candidate_s for s in block)},
            note=f"started and warm after {started_s:.1f} s; {thrown[0]:.1f} and {thrown[1]:.1f} preemptions a batch; "
            f"{_of(made[0])} and {_of(made[1])}",
        )


def _warm(server: Server, settings: Moves) -> None:
    """Run half a period that nobody counts, so that both arms have met their widths before the first block."""
    for step in range(PERIOD_STEPS // 2):
        server.run(step, settings)


def _probes(server: Server, job: Job) -> list[RowsProbe]:
    """Return equal rows: one token each for the way there and the prompts, more for decoding."""
    long = MODELS[job.model].prompt_len + job.lengths.longest - PROBE_TOKENS
    shapes = [
        (rows, prompt, tokens)
        for tokens in (1, PROBE_TOKENS)
        for prompt in (SHORT_PROMPT, long)
        for rows in _widths(job, prompt)
    ]
    return [server.probe(*shape, number) for number, shape in enumerate(shapes * REPEATS)]


def _widths(job: Job, prompt: int) -> list[int]:
    """Return the rows of probes that all run at once: as many as the job has, the server allows and its cache holds."""
    settings = job.settings({})
    most = settings["max_num_seqs"]
    assert isinstance(most, int)
    per_row = -(-(prompt + PROBE_TOKENS) // BLOCK)
    most = max(1, min(num_rows(job), most, (num_blocks(job, settings["kv_frac"]) - 1) // per_row))
    return [width for width in WIDTHS if width < most] + [most]


def _turns(number: int) -> tuple[int, int]:
    """Return which side is first: 0 1, 1 0, 1 0, 0 1, so that every half of the lengths is measured in both orders."""
    return (0, 1) if number % 4 in (0, 3) else (1, 0)


def _steps(block: int) -> range:
    """Return a block's steps: halves of the period in turn, and new prompts every time."""
    size = PERIOD_STEPS // 2
    return range(block * size, (block + 1) * size)


def _seconds(blocks: list[list[BatchTimes]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(batch.seconds for batch in block) for block in blocks)


def _of(blocks: list[list[BatchTimes]]) -> str:
    batches = [batch for block in blocks for batch in block]
    found = fmean(batch.found_tokens for batch in batches)
    return f"{fmean(batch.iterations for batch in batches):.1f} iterations, {found:.0f} tokens found"
