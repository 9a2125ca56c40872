"""How the idle OpenMP threads of an engine process wait for their next work: they spin shortly, or sleep at once.

Torch leaves them spinning for milliseconds. Alone, a step of two threads is then 1.55x as fast as with threads that
sleep at once (`bench/vs_trl/idle_threads.py`), and a paused run costs nothing. The surprise is company: where more
threads work than there are cores, a spinning one holds the core that the awaited one needs, and a step of one second
takes ten. A short spin covers the gaps between operators and gives a core back soon (docs/LAB.md has the figures).
"""

from collections.abc import Mapping, Sequence

from steptune.core.job import JobSpec
from steptune.core.work import IDLE_THREADS, SLEEPING, WorkItem
from steptune.engine.knobs import EngineKnobs

THREADS = ("rollout_threads", "train_threads")
"""Knobs that say how many threads a side has."""

WAIT_POLICY, SPIN_COUNT = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"
"""What libgomp reads, once, when torch loads."""

ASLEEP = {WAIT_POLICY: "passive", SPIN_COUNT: "0"}

SHORT_SPIN = {SPIN_COUNT: "10000"}
"""Of 4 M parameters, a step of two threads on two cores: 1.40 s asleep, 0.95 s so, 0.88 s as torch leaves it (four
blocks each, noise 8 %); of four such runs at once 3.7 s, 5.4 s and 25 s."""


def threads_at_work(knobs: EngineKnobs) -> int:
    """Return the most threads of a run that compute at the same time.

    >>> threads_at_work(EngineKnobs(rollout_threads=2, train_threads=2))
    2
    >>> threads_at_work(EngineKnobs(schedule="one_step_off", rollout_threads=1, train_threads=2))
    3
    """
    rollout = knobs.rollout_threads * knobs.rollout_replicas
    trainer = knobs.train_threads * knobs.train_ranks
    return max(rollout, trainer) if knobs.schedule == "sync" else rollout + trainer


def is_crowded(knobs: EngineKnobs, num_cores: int) -> bool:
    """Return whether spinning would take what others need: cores are short, or a quota counts every second of them."""
    return threads_at_work(knobs) > num_cores or knobs.rollout_cores is not None


def waiting(base: Mapping[str, str], *, is_crowded: bool) -> Mapping[str, str]:
    """Return what the environment of a process adds to ``base`` about idle threads; what its owner set there stays.

    >>> waiting({"OMP_WAIT_POLICY": "active"}, is_crowded=True), waiting({}, is_crowded=False)
    ({}, {'GOMP_SPINCOUNT': '10000'})
    """
    if WAIT_POLICY in base or SPIN_COUNT in base:
        return {}
    return ASLEEP if is_crowded else SHORT_SPIN


def may_sleep(job: JobSpec, base: Mapping[str, str]) -> bool:
    """Return whether a configuration of the job may put several threads to sleep that would else spin.

    Then their prices have to be known twice, for at every wait a sleeping thread is woken by the kernel.
    """
    pin, is_decided = job.knobs.pin, not waiting(base, is_crowded=True)
    if is_decided or pin.get("schedule") == "sync" or job.devices.num_cores == 1:
        return False
    return any(pin.get(name) != 1 for name in THREADS)


def put_to_sleep(items: Sequence[WorkItem]) -> tuple[WorkItem, ...]:
    """Return a crowded run's items: those of several threads are priced as measured with threads that sleep."""
    return tuple(
        item.model_copy(update={"when": {**item.when, IDLE_THREADS: SLEEPING}}) if _has_several(item) else item
        for item in items
    )


def _has_several(item: WorkItem) -> bool:
    threads = (item.when.get(knob, 1) for knob in THREADS)
    return any(isinstance(number, int) and number > 1 for number in threads)
