"""Staleness that makes steps faster and learning slower: the gain in device time is what counts."""

from pathlib import Path

import pytest
from seeded_cases import reward_of_low_tokens, seeded_loop, small_job

from steptune.core.job import JobSpec
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement
from steptune.engine.evaluate import held_out
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop
from steptune.engine.produce import Producer, prompt_batch, rollout_engine
from steptune.guard.off_policy import check_off_policy
from steptune.guard.reward_rate import check_reward_rate, equal_time_step

NUM_STEPS, LR = 12, 5e-3
DEVICE_RATIO = 0.5
"""Device-seconds per step that the stale arm is said to take; time is not measured in a test."""
SEEDS = (1, 2, 3, 4)
NUM_HELD_OUT = 100
SYNC: dict[str, object] = {}
STALE: dict[str, object] = {"schedule": "one_step_off", "correction": "tis"}


def held_out_reward(loop: Loop) -> float:
    """Mean reward on held-out problems, the same dice every time."""
    job = loop.state.spec.job
    texts = [problem.text for problem in held_out(NUM_HELD_OUT, 1, (1,))]
    engine = rollout_engine(job, EngineKnobs(handover="alias"), loop.model)
    limit = job.algorithm.max_completion_len
    batch, _ = engine.generate(
        prompt_batch(texts, range(NUM_HELD_OUT), 1), max_completion_len=limit, temperature=1.0, seed=99
    )
    return float(reward_of_low_tokens(None, batch, ()).mean())


def trained(folder: Path, lr: float, **knobs: object) -> tuple[list[float], list[float], list[Observation]]:
    """Return the rewards of every seed at equal device time and at the end, and the last seed's steps."""
    job: JobSpec = small_job(lr=lr, max_completion_len=8)
    middles, ends, steps = list[float](), list[float](), list[Observation]()
    for seed in SEEDS:
        loop = seeded_loop(folder, job, seed=seed, **knobs)
        middle = equal_time_step(NUM_STEPS, DEVICE_RATIO)
        steps = [loop.step() for _ in range(middle)]
        middles.append(held_out_reward(loop))
        steps += [loop.step() for _ in range(NUM_STEPS - middle)]
        ends.append(held_out_reward(loop))
        loop.close()
    return middles, ends, steps


def test_slower_learning_that_cancels_a_faster_step_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producer, "verify", reward_of_low_tokens)
    equal, end, _ = trained(tmp_path, LR, **SYNC)
    _, learns, _ = trained(tmp_path, LR, **STALE)
    healthy = check_reward_rate(baseline_equal_S=equal, baseline_end_S=end, candidate_S=learns)
    assert healthy.judgement is Judgement.PASS, healthy.because
    _, slower, steps = trained(tmp_path, LR * DEVICE_RATIO, **STALE)
    verdict = check_reward_rate(baseline_equal_S=equal, baseline_end_S=end, candidate_S=slower)
    assert verdict.judgement is Judgement.FAIL, verdict.because
    # nothing that a single step shows is wrong with it
    stale = check_off_policy(steps, max_staleness=1, own_lag=0, has_correction=True, allow_corrections=True)
    assert stale.judgement is Judgement.PASS, stale.because
