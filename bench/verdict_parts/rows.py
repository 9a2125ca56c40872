"""Every row of the table: what is simulated, what counts as a hit, and the share that it must hold."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from steptune.core.decision import Outcome
from steptune.core.job import LimitsSpec
from steptune.tune.gather import TRIAL_PLAN
from verdict_parts.exact import Target
from verdict_parts.gap import is_caught
from verdict_parts.machine import Noise, block_spread, read_trace
from verdict_parts.reward import outcome
from verdict_parts.speed import session

MARGIN = LimitsSpec().reward_margin

NUM_CANDIDATES = 8
"""Candidates of a session that tries all it may (`budget.max_trials`)."""

MAX_PAIRS = 20

EXAMPLE_K3_SPREAD = 0.4
"""Spread of log k3 from step to step in the A/A arms of the example job (0.38; a probe of a few rows a step)."""

NOISE = 0.05
"""Step to step inside a launch, as the tuner's noise floor states it."""

CALM_NOISE = 0.02
"""A calm machine, on which only the launches differ: what one launch of a confirmation cannot see."""

LAUNCH_SD, PUBLIC_LAUNCH_SD = 0.01, 0.033
"""Launch to launch: about this machine's, and that of published reruns (`compare/ratio.py`)."""

DRIFT = 0.1

Hit = Callable[[str], bool]
"""Runs one session from its seed; whether it counts."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    about: Literal["speed", "reward", "mismatch"]
    hit: Hit
    target: Target | None = None
    """None for what is shown beside the targets, on a tenth of the sessions."""


@lru_cache
def trace(key: str) -> list[list[float]]:
    """Recorded noise of unit spread: ``quiet`` and ``busy`` step times, or ``k3``."""
    return read_trace(key)


def adopts_nothing_new(key: str, launch_sd: float, cv: float = NOISE) -> Hit:
    """Return a session whose candidates change nothing: adopting any is false."""
    noise = Noise(cv=cv, launch_sd=launch_sd, drift=DRIFT)
    return lambda seed: _left_tool(session(trace(key), noise, [1.0] * NUM_CANDIDATES, seed).decision.outcome)


def leads_to_nothing(seed: str) -> bool:
    """Whether such a session follows a lead, which costs it a confirmation."""
    noise = Noise(cv=NOISE, launch_sd=LAUNCH_SD, drift=DRIFT)
    return session(trace("quiet"), noise, [1.0] * NUM_CANDIDATES, seed).num_leads > 0


def finds(gain: float, key: str = "quiet", *, of_blocks: bool = False) -> Hit:
    """Return a session with one candidate of that gain: found means adopted on at most `MAX_PAIRS` pairs.

    ``of_blocks``: the noise is that of a block's mean instead of a step's.
    """

    def hit(seed: str) -> bool:
        cv = NOISE / block_spread(trace(key), TRIAL_PLAN.kept_steps) if of_blocks else NOISE
        noise = Noise(cv=cv, launch_sd=LAUNCH_SD, drift=DRIFT)
        ended = session(trace(key), noise, [1.0 - gain], seed)
        return _left_tool(ended.decision.outcome) and ended.num_pairs <= MAX_PAIRS

    return hit


def adopts_a_drop(drop: float, pair_sd: float, counted: Outcome = Outcome.ADOPT) -> Hit:
    """Return a session whose fast candidates lose ``drop`` of reward."""
    return lambda seed: outcome(drop=drop, pair_sd=pair_sd, seed=seed) is counted


def catches(growth: float, spread: float = EXAMPLE_K3_SPREAD) -> Hit:
    """Return a session whose k3 grows by ``growth`` in 8 steps and spreads by ``spread`` (log) from step to step."""
    return lambda seed: is_caught(trace("k3"), spread=spread, growth=growth, seed=seed)


def _left_tool(outcome: Outcome) -> bool:
    return outcome in (Outcome.ADOPT, Outcome.PROVISIONAL)


FALSE_ADOPTION = Target(at_most=0.05, high_at_most=0.055)
AT_MARGIN, AT_TWICE = Target(at_most=0.03), Target(at_most=0.001)

ROWS = (
    Row(
        name="false adoption, 8 candidates",
        about="speed",
        hit=adopts_nothing_new("quiet", LAUNCH_SD),
        target=FALSE_ADOPTION,
    ),
    Row(name="the same, busy machine", about="speed", hit=adopts_nothing_new("busy", LAUNCH_SD)),
    Row(
        name="the same, launches 3.3 % apart",
        about="speed",
        hit=adopts_nothing_new("quiet", PUBLIC_LAUNCH_SD),
    ),
    Row(
        name="the same, 2 % noise of a step, launches 3.3 % apart",
        about="speed",
        hit=adopts_nothing_new("quiet", PUBLIC_LAUNCH_SD, CALM_NOISE),
    ),
    Row(name="such a session follows a false lead", about="speed", hit=leads_to_nothing),
    Row(
        name="5 % gain, 5 % noise of a step, within 20 pairs",
        about="speed",
        hit=finds(0.05),
        target=Target(at_least=0.8),
    ),
    Row(name="the same gain, busy machine", about="speed", hit=finds(0.05, "busy")),
    Row(name="the same gain, 5 % noise of a block's mean", about="speed", hit=finds(0.05, of_blocks=True)),
    Row(name="10 % gain, 5 % noise of a block's mean", about="speed", hit=finds(0.1, of_blocks=True)),
    Row(
        name="reward drop of the margin, pairs spread 0.02",
        about="reward",
        hit=adopts_a_drop(MARGIN, 0.02),
        target=AT_MARGIN,
    ),
    Row(
        name="reward drop of the margin, pairs spread 0.03",
        about="reward",
        hit=adopts_a_drop(MARGIN, 0.03),
        target=AT_MARGIN,
    ),
    Row(
        name="reward drop of the margin, pairs spread 0.06",
        about="reward",
        hit=adopts_a_drop(MARGIN, 0.06),
        target=AT_MARGIN,
    ),
    Row(
        name="twice the margin, pairs spread 0.02", about="reward", hit=adopts_a_drop(2 * MARGIN, 0.02), target=AT_TWICE
    ),
    Row(
        name="twice the margin, pairs spread 0.03", about="reward", hit=adopts_a_drop(2 * MARGIN, 0.03), target=AT_TWICE
    ),
    Row(
        name="twice the margin, pairs spread 0.06", about="reward", hit=adopts_a_drop(2 * MARGIN, 0.06), target=AT_TWICE
    ),
    Row(name="no drop at all, pairs spread 0.02", about="reward", hit=adopts_a_drop(0.0, 0.02)),
    Row(
        name="drop of the margin handed out with trip-wires, pairs spread 0.02",
        about="reward",
        hit=adopts_a_drop(MARGIN, 0.02, Outcome.PROVISIONAL),
    ),
    Row(name="mismatch grows 45 % in 8 steps", about="mismatch", hit=catches(0.45), target=Target(at_least=0.99)),
    Row(name="the same, k3 spread 0.8", about="mismatch", hit=catches(0.45, 0.8)),
    Row(name="mismatch grows 12 % in 8 steps (a healthy bf16 run)", about="mismatch", hit=catches(0.12)),
    Row(name="mismatch does not grow", about="mismatch", hit=catches(0.0)),
)
