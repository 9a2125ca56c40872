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
from prospective.step_lengths import PERIOD_STEPS, step_lengths
from prospective.vllm_messages import BatchTimes, VllmProfile
from prospective.vllm_server import Server
from prospective.vllm_space import MODELS, num_blocks

PREFILLS = (1, 1, 3, 3, 6, 6)
"""Prompts of each prefill batch."""

NUM_BLOCKS = 2
"""Blocks of a trial on each side, together a period of lengths: each costs a rest."""

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
        """Run a period of batches for their level, one watched for its drain, and a few prompts alone.

        Looking at metrics costs the server a little. The watched ones get all their requests at once, so that the curve
        goes as far as the server's own limit of rows.
        """
        server, settings = self._resident(job), job.settings({})
        quiet = [server.run(PERIOD_STEPS + step, settings) for step in range(PERIOD_STEPS)]
        wide = {**settings, "client_rows": None}
        drains = [server.run(2 * PERIOD_STEPS + step, wide, watched=True) for step in range(PERIOD_STEPS)]
        batches = (*quiet, *drains)
        prefills = [server.prefill(STRIDE // 2 + i, count) for i, count in enumerate(PREFILLS)]
        return VllmProfile(
            settings=settings,
            prompt_len=MODELS[job.model].prompt_len,
            num_blocks=num_blocks(job, settings["kv_frac"]),
            lengths=tuple(tuple(step_lengths(job, batch.step)) for batch in batches),
            batches=batches,
            prefills=tuple(prefills),
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
            server.run(0, job.settings({}))
            self._incumbent = job.name, server
        return self._incumbent[1]

    def _trial(self, job: Job, moves: Moves, first: int) -> PairTimes:
        began_s = time.monotonic()
        incumbent = self._resident(job)
        candidate = Server(job, moves)
        sides = ((incumbent, job.settings({})), (candidate, job.settings(moves)))
        made: tuple[list[list[BatchTimes]], list[list[BatchTimes]]] = [], []
        try:
            candidate.run(0, job.settings(moves))
            started_s = time.monotonic() - began_s
            for number in range(NUM_BLOCKS):
                for side in (0, 1) if number % 2 == 0 else (1, 0):
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
            note=f"started and warm after {started_s:.1f} s; {thrown[0]:.1f} and {thrown[1]:.1f} preemptions a batch",
        )


def _steps(block: int) -> range:
    size = PERIOD_STEPS // NUM_BLOCKS
    return range(block * size, (block + 1) * size)


def _seconds(blocks: list[list[BatchTimes]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(batch.seconds for batch in block) for block in blocks)
