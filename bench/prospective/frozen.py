"""The campaigns' lists of jobs as they were frozen, and as their seeds draw them: a test holds them to each other."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from prospective import embedded_space, trl_space, vllm_space
from prospective.job import Job
from prospective.space import draw_jobs

HERE = Path(__file__).parent
SPACES = (embedded_space.SPACE, trl_space.SPACE, vllm_space.SPACE)
"""Every engine's space, in the order of the list; the same for every campaign."""

JOBS: TypeAdapter[tuple[Job, ...]] = TypeAdapter(tuple[Job, ...])


@dataclass(frozen=True, kw_only=True, slots=True)
class JobList:
    """One campaign's list: ``JobList(seed=20261130, file=Path("jobs.json"), results="prospective")``."""

    seed: int
    file: Path
    results: str
    """Name in `bench/results`: of the folder with its journal, and of its score."""

    def drawn(self) -> tuple[Job, ...]:
        """Return the jobs as seed and spaces draw them."""
        return tuple(job for space in SPACES for job in draw_jobs(space, self.seed))

    def frozen(self) -> tuple[Job, ...]:
        """Return the jobs of the committed list."""
        return JOBS.validate_json(self.file.read_bytes())


LISTS: dict[int, JobList] = {
    1: JobList(seed=20261130, file=HERE / "jobs.json", results="prospective"),
    2: JobList(seed=20261201, file=HERE / "jobs2.json", results="prospective2"),
    3: JobList(seed=20261202, file=HERE / "jobs3.json", results="prospective3"),
}
"""Campaigns by number. Whatever was changed in the model after one had been looked at is judged by the next."""


def as_text(jobs: tuple[Job, ...]) -> str:
    """Return the list as it is committed: a job a line."""
    return "[\n" + ",\n".join(job.model_dump_json() for job in jobs) + "\n]\n"


def list_hash(jobs: tuple[Job, ...]) -> str:
    """Return the SHA-256 (hex) of the list."""
    return hashlib.sha256(as_text(jobs).encode()).hexdigest()
