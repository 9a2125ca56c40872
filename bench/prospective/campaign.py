"""Runs the campaign: profile, forecast, then measure, job by job, within a wall budget; goes on where it stopped.

The order is the proof. A forecast line of a candidate always stands before its trial's line, and all first forecasts
of a job before any of its trials (`check_order`, asked of what is on disk). Surprise: nothing is decided by a result: a
candidate that a tuner would have given up is tried all the same.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from prospective.backend import Backend, PairTimes, Settled
from prospective.campaign_journal import Body, ForecastMade, Profiled, SameDone, TrialBegan, TrialDone
from prospective.job import Engine, Job
from steptune.core.errors import StepTuneError, StoreError
from steptune.core.records import Record, canonical_json
from steptune.store.files import replace
from steptune.store.journal import Journal


@final
@dataclass(kw_only=True, slots=True)
class Campaign:
    """One campaign over some jobs. ``backends`` makes an engine's half when its first job comes."""

    journal: Journal[Body]
    folder: Path
    """Profiles are kept here."""
    backends: Mapping[Engine, Callable[[], Backend[Any]]]
    budget_s: float
    """Wall seconds after which no further measurement is begun."""
    say: Callable[[str], None] = print
    clock: Callable[[], float] = time.monotonic
    started_s: float = field(init=False)
    _made: dict[Engine, Backend[Any]] = field(default_factory=dict[Engine, Backend[Any]])

    def __post_init__(self) -> None:
        self.started_s = self.clock()

    def run(self, jobs: Sequence[Job]) -> bool:
        """Run what is not done; return whether everything is."""
        return all(self._run_job(job) for job in jobs)

    def _run_job(self, job: Job) -> bool:
        if self._is_done(job):
            return True
        if not self._may_go_on():
            return False
        backend = self._backend(job.engine)
        profile = self._profile(job, backend)
        self._first_forecasts(job, backend, profile)
        if not self._bodies(SameDone, job):
            self._same(job, backend, is_possible=profile is not None)
        for number in range(len(job.candidates)):
            if self._bodies(TrialDone, job, number):
                continue
            if not self._may_go_on():
                return False
            self._later_forecast(job, backend, profile, number)
            self._trial(job, backend, number, is_possible=profile is not None)
        return True

    def _is_done(self, job: Job) -> bool:
        return len(self._bodies(TrialDone, job)) == len(job.candidates)

    def _may_go_on(self) -> bool:
        return self.clock() - self.started_s < self.budget_s

    def _backend(self, engine: Engine) -> Backend[Any]:
        if engine not in self._made:
            self._made[engine] = self.backends[engine]()
        return self._made[engine]

    def _bodies(self, kind: type[Any], job: Job, number: int | None = None) -> list[Any]:
        events: list[Any] = list(self.journal.events)
        found = [body for body in events if isinstance(body, kind) and body.job == job.name]
        return found if number is None else [body for body in found if body.number == number]

    def _profile(self, job: Job, backend: Backend[Any]) -> Record | None:
        """Return the kept profile, measured now if it is not there; None when it cannot be measured."""
        path = profile_path(self.folder, job)
        for known in self._bodies(Profiled, job):
            if known.profile_hash is None:
                return None
            text = path.read_text(encoding="utf-8")
            if _hash(text) != known.profile_hash:
                raise StoreError(f"`{path}` is not the profile that the journal names; hint: restore it from a copy")
            return backend.profile_type.model_validate_json(text)
        started_s, cause, measured = self.clock(), "", None
        self.say(f"{job.name}: profile ({job.model}, {job.disturbance})")
        try:
            measured = backend.profile(job)
        except (MemoryError, StepTuneError) as error:
            cause = f"{type(error).__name__}: {error}"
        text = None if measured is None else canonical_json(measured)
        if text is not None:
            replace(path, text)
        wall_s = self.clock() - started_s
        digest = None if text is None else _hash(text)
        self.journal.append(Profiled(job=job.name, profile_hash=digest, cause=cause, wall_s=wall_s))
        self.say(f"{job.name}: profiled in {wall_s:.1f} s {cause}")
        return measured if text is None else backend.profile_type.model_validate_json(text)

    def _first_forecasts(self, job: Job, backend: Backend[Any], profile: Record | None) -> None:
        for number in range(len(job.candidates)):
            if not any(made.is_first for made in self._bodies(ForecastMade, job, number)):
                self._forecast(job, backend, profile, number, ())

    def _later_forecast(self, job: Job, backend: Backend[Any], profile: Record | None, number: int) -> None:
        ended = [body.number for body in self._bodies(TrialDone, job) if body.pair is not None]
        if ended and not any(not made.is_first for made in self._bodies(ForecastMade, job, number)):
            self._forecast(job, backend, profile, number, tuple(ended))

    def _forecast(
        self, job: Job, backend: Backend[Any], profile: Record | None, number: int, learnt_from: tuple[int, ...]
    ) -> None:
        pairs = {body.number: body.pair for body in self._bodies(TrialDone, job)}
        settled = [Settled(moves=job.candidates[n], pair=pair) for n in learnt_from if (pair := pairs[n]) is not None]
        told, refused = None, "the job could not be profiled"
        if profile is not None:
            try:
                told, refused = backend.forecast(job.told(), profile, settled, job.candidates[number]), ""
            except StepTuneError as error:
                refused = f"{type(error).__name__}: {error}"
        made = ForecastMade(
            job=job.name, number=number, is_first=not learnt_from, told=told, refused=refused, learnt_from=learnt_from
        )
        self.journal.append(made)

    def _same(self, job: Job, backend: Backend[Any], *, is_possible: bool) -> None:
        pair, cause, wall_s = self._measure(lambda: backend.same(job), is_possible=is_possible)
        self.journal.append(SameDone(job=job.name, pair=pair, cause=cause, wall_s=wall_s))
        self.say(f"{job.name}: A/A {_ratio_text(pair)} in {wall_s:.1f} s {cause}")

    def _trial(self, job: Job, backend: Backend[Any], number: int, *, is_possible: bool) -> None:
        self.journal.append(TrialBegan(job=job.name, number=number))
        moves = job.candidates[number]
        pair, cause, wall_s = self._measure(lambda: backend.pair(job, moves), is_possible=is_possible)
        self.journal.append(TrialDone(job=job.name, number=number, pair=pair, cause=cause, wall_s=wall_s))
        told = " then ".join(_told_text(made) for made in self._bodies(ForecastMade, job, number))
        self.say(
            f"{job.name}/{number}: forecast {told}, measured {_ratio_text(pair)} in {wall_s:.1f} s {moves} {cause}"
        )

    def _measure(self, measure: Callable[[], PairTimes], *, is_possible: bool) -> tuple[PairTimes | None, str, float]:
        if not is_possible:
            return None, "the job could not be profiled", 0.0
        started_s = self.clock()
        try:
            return measure(), "", self.clock() - started_s
        except (MemoryError, StepTuneError) as error:
            return None, f"{type(error).__name__}: {error}", self.clock() - started_s


def profile_path(folder: Path, job: Job) -> Path:
    """Return where a job's profile is kept."""
    return folder / f"profile-{job.name}.json"


def _told_text(made: ForecastMade) -> str:
    told = made.told
    return f"refused ({made.refused})" if told is None else f"{told.ratio:.3f} ({told.low:.3f} to {told.high:.3f})"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _ratio_text(pair: PairTimes | None) -> str:
    return "nothing" if pair is None else f"{pair.ratio:.3f}"
