"""The list of jobs as it was frozen, and as the seed draws it again: a test holds the two against each other."""

import hashlib
from pathlib import Path

from pydantic import TypeAdapter

from prospective import embedded_space, trl_space, vllm_space
from prospective.job import Job
from prospective.space import draw_jobs

FILE = Path(__file__).with_name("jobs.json")
SPACES = (embedded_space.SPACE, trl_space.SPACE, vllm_space.SPACE)
"""Every engine's space, in the order of the list."""

JOBS: TypeAdapter[tuple[Job, ...]] = TypeAdapter(tuple[Job, ...])


def drawn() -> tuple[Job, ...]:
    """Return the jobs as seed and spaces draw them."""
    return tuple(job for space in SPACES for job in draw_jobs(space))


def frozen() -> tuple[Job, ...]:
    """Return the jobs of the committed list."""
    return JOBS.validate_json(FILE.read_bytes())


def as_text(jobs: tuple[Job, ...]) -> str:
    """Return the list as it is committed: a job a line."""
    return "[\n" + ",\n".join(job.model_dump_json() for job in jobs) + "\n]\n"


def list_hash(jobs: tuple[Job, ...]) -> str:
    """Return the SHA-256 (hex) of the list."""
    return hashlib.sha256(as_text(jobs).encode()).hexdigest()
