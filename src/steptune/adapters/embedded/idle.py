"""How the idle OpenMP threads of an engine process wait for their next work: they spin shortly, or sleep at once.

Torch leaves them spinning for milliseconds. Alone, a step of two threads is then 1.55x as fast as with threads that
sleep at once (`bench/vs_trl/idle_threads.py`), and a paused run costs nothing. The surprise is company: where more
threads work than there are cores, a spinning one holds the core that the awaited one needs, and a step of one second
takes ten. A short spin covers the gaps between operators and gives a core back soon (docs/LAB.md has the figures).
"""

from collections.abc import Mapping

from steptune.engine.knobs import EngineKnobs

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
