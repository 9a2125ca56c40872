"""TRL's half of the campaign: profile the incumbent, forecast, and let both arms take turns step by step.

Both arms are processes that stay; each block runs the same forced lengths on both sides. Surprise: the incumbent is
started once per job and kept from the profile to its last trial; a candidate is forked anew for its trial.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import fmean
from typing import final

from prospective import trl_forecast
from prospective.backend import PairTimes, Settled, Told
from prospective.job import Job, Moves
from prospective.step_lengths import PERIOD_STEPS, step_lengths
from prospective.trl_messages import StepTimes, TrlProfile
from prospective.trl_pool import TrlArm, TrlPool

PROFILE_S, TRIAL_S = 8.0, 10.0
"""Seconds of a profile's and of a trial's steps, both arms together: one period of lengths if that takes as long, else
two."""

WIDEST_PROBE = 16
"""Rows of the widest probed micro-batch."""


@final
class TrlHalf:
    """TRL on the CPU."""

    profile_type = TrlProfile

    def __init__(self) -> None:
        self._open = ExitStack()
        self._pool: TrlPool | None = None
        self._incumbent: tuple[str, TrlArm, float] | None = None

    def profile(self, job: Job) -> TrlProfile:
        """Run the incumbent for some steps and time small pieces of its work between them."""
        arm, warm_s = self._resident(job)
        steps = arm.run(range(_whole_periods(PROFILE_S / warm_s)))
        probes = arm.probe(WIDEST_PROBE)
        return TrlProfile(
            settings=job.settings({}),
            group_size=job.group_size,
            lengths=tuple(tuple(step_lengths(job, step.step)) for step in steps),
            steps=tuple(steps),
            probes=tuple(probes),
            start_s=arm.start_s,
        )

    def forecast(self, told: Job, profile: TrlProfile, settled: Sequence[Settled], moves: Moves) -> Told:
        """See `trl_forecast`."""
        return trl_forecast.forecast(told, profile, settled, moves)

    def pair(self, job: Job, moves: Moves) -> PairTimes:
        """Run a candidate beside the incumbent."""
        return self._trial(job, moves)

    def same(self, job: Job) -> PairTimes:
        """Run the incumbent beside itself."""
        return self._trial(job, {})

    def close(self) -> None:
        """End the worker and what it forked."""
        self._open.close()
        self._pool = self._incumbent = None

    def _resident(self, job: Job) -> tuple[TrlArm, float]:
        """Return the job's incumbent and the seconds of its last warm-up step."""
        if self._pool is None:
            self._pool = self._open.enter_context(TrlPool())
        if self._incumbent is None or self._incumbent[0] != job.name:
            if self._incumbent is not None:
                self._incumbent[1].close()
                self._incumbent = None
            arm = self._pool.start(job, {})
            self._incumbent = job.name, arm, arm.run([0, 0])[-1].seconds
        return self._incumbent[1], self._incumbent[2]

    def _trial(self, job: Job, moves: Moves) -> PairTimes:
        began_s = time.monotonic()
        incumbent, _ = self._resident(job)
        assert self._pool is not None
        candidate = self._pool.start(job, moves)
        try:
            both_s = candidate.run([0, 0])[-1].seconds + incumbent.run([0])[-1].seconds
            started_s = time.monotonic() - began_s
            made: tuple[list[list[StepTimes]], list[list[StepTimes]]] = [], []
            for number in range(_whole_periods(TRIAL_S / both_s)):
                for side in (0, 1) if number % 2 == 0 else (1, 0):
                    made[side].append((incumbent, candidate)[side].run([number]))
        finally:
            candidate.close()
        return PairTimes(
            incumbent_s=_seconds(made[0]),
            candidate_s=_seconds(made[1]),
            incumbent_phases_s=_phases(made[0]),
            candidate_phases_s=_phases(made[1]),
            note=f"started and warm after {started_s:.1f} s",
        )


def _whole_periods(num_steps: float) -> int:
    """Return the steps of one or two periods, whichever fits."""
    return PERIOD_STEPS * (1 if num_steps < 2 * PERIOD_STEPS else 2)


def _seconds(blocks: list[list[StepTimes]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(step.seconds for step in block) for block in blocks)


def _phases(blocks: list[list[StepTimes]]) -> dict[str, float]:
    steps = [step for block in blocks for step in block]
    return {
        trl_forecast.ROLLOUT: fmean(sum(call.seconds for call in step.calls) for step in steps),
        trl_forecast.TRAIN: fmean(sum(m.forward_s + m.backward_s for m in step.micro) for step in steps),
    }
