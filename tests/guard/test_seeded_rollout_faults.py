"""Faults put into the embedded engine's rollout and hand-over: each is caught by the guard that is there for it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from observation_factory import steps_with
from seeded_cases import lively_start, reward_of_low_tokens, run_steps, seeded_loop, small_job, stale_job
from torch import Tensor

from steptune.core.job import JobSpec
from steptune.core.model import MoEModel
from steptune.core.profile import GapStats
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement, Verdict
from steptune.engine import choose, gradients
from steptune.engine.arrival import ArrivalCheck
from steptune.engine.gap import gap_stats
from steptune.engine.int8 import has_int8
from steptune.engine.knobs import EngineKnobs
from steptune.engine.new_model import new_model
from steptune.engine.prefix_store import PrefixStore
from steptune.engine.produce import Producer, rollout_engine
from steptune.engine.rollout import RolloutEngine
from steptune.engine.trainer import Trainer
from steptune.engine.types import PromptBatch
from steptune.envs.vocabulary import vocabulary_of
from steptune.guard.length_shift import check_length
from steptune.guard.mismatch import check_mismatch
from steptune.guard.weights_arrived import check_weights_arrived

LOST = "blocks.1.ffn.down.weight"
load = RolloutEngine.load


@pytest.fixture(autouse=True)
def _a_reward_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producer, "verify", reward_of_low_tokens)


@pytest.fixture
def healthy(tmp_path: Path) -> list[Observation]:
    return run_steps(tmp_path / "healthy")


def mismatch(candidate: list[Observation], baseline: list[Observation]) -> Verdict:
    return check_mismatch(candidate, baseline, max_mismatch_k3=small_job().limits.max_mismatch_k3)


HEALTHY: dict[str, dict[str, object]] = {
    "sync": {},
    "alias": {"handover": "alias"},
    "bf16": {"rollout_dtype": "bf16"},
    "one step off": {"schedule": "one_step_off", "correction": "tis"},
    "async": {
        "schedule": "async",
        "max_lag": 1,
        "compact_finished": True,
        "inflight_update": True,
        "correction": "tis",
    },
    "partial": {"partial_rollout": 1.5, "max_lag": 1, "compact_finished": True, "correction": "tis"},
}


@pytest.mark.parametrize("how", HEALTHY.values(), ids=HEALTHY.keys())
def test_a_healthy_run_hands_every_tensor_over(tmp_path: Path, how: dict[str, object]) -> None:
    verdict = check_weights_arrived(run_steps(tmp_path, 7, job=stale_job(), **how))
    assert verdict.judgement is Judgement.PASS, verdict.because


def test_weights_that_are_not_handed_over_are_caught(
    tmp_path: Path, healthy: list[Observation], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_the_first(engine: RolloutEngine, state: Mapping[str, Tensor], version: int) -> None:
        if version == 0:
            load(engine, state, version)
        engine.version = version  # counted all the same

    monkeypatch.setattr(RolloutEngine, "load", only_the_first)
    broken = run_steps(tmp_path)
    verdict = check_weights_arrived(broken)
    assert verdict.judgement is Judgement.FAIL
    assert "tensors are not the trainer's" in verdict.because
    assert mismatch(broken, healthy).judgement is Judgement.FAIL
    assert mismatch(healthy, healthy).judgement is Judgement.PASS


def test_one_tensor_that_is_left_out_is_caught_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_one(engine: RolloutEngine, state: Mapping[str, Tensor], version: int) -> None:
        load(engine, {**state, LOST: engine.plain_tensors()[LOST].clone()} if version else state, version)

    monkeypatch.setattr(RolloutEngine, "load", without_one)
    verdict = check_weights_arrived(run_steps(tmp_path))
    assert verdict.judgement is Judgement.FAIL
    assert f"1 of {len(lively_start(small_job()))} tensors are not the trainer's, first `{LOST}`" in verdict.because


def replicated(folder: Path, *, stale_at: int | None) -> list[Observation]:
    """Return the steps of a run with three replicas, the last of which misses one hand-over."""
    job = small_job(lr=1e-2)
    loop = seeded_loop(folder, job)
    checks = [ArrivalCheck(rollout_engine(job, loop.state.spec.knobs), replica) for replica in range(3)]
    observed: list[Observation] = []
    for _ in range(5):
        state, version = loop.model.state_dict(), loop.state.version
        for check in checks:
            check.before(state, version)
            if not (version == stale_at and check.replica == 2):
                check.engine.load(state, version)
        arrivals = tuple(check.after(state, version) for check in checks)
        observed.append(loop.step().model_copy(update={"arrivals": arrivals}))
    loop.close()
    return observed


def test_one_stale_replica_of_three_is_caught(tmp_path: Path) -> None:
    verdict = check_weights_arrived(replicated(tmp_path, stale_at=3), num_replicas=3)
    assert verdict.judgement is Judgement.FAIL
    assert "replica 2 holds version 2, the trainer 3" in verdict.because
    healthy = check_weights_arrived(replicated(tmp_path, stale_at=None), num_replicas=3)
    assert healthy.judgement is Judgement.PASS


def test_a_skipped_step_is_caught_at_a_learning_rate_where_bf16_hides_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job(lr=1e-7)
    healthy = check_weights_arrived(run_steps(tmp_path, job=job, rollout_dtype="bf16"))
    assert healthy.judgement is Judgement.PASS
    assert healthy.measured is not None
    assert healthy.measured.value < 0.01  # what the replica holds hardly changes, step or no step
    loop = seeded_loop(tmp_path, job, rollout_dtype="bf16")
    before = [loop.step() for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(loop.state.trainer.optimizer, "step", lambda: None)
        before.append(loop.step())
    verdict = check_weights_arrived([*before, *[loop.step() for _ in range(2)]])
    loop.close()
    assert verdict.judgement is Judgement.FAIL
    assert "the update of step 2" in verdict.because
    assert "skipped optimizer step" in verdict.because


def rows_of(rows: list[list[int]]) -> PromptBatch:
    width, index = max(map(len, rows)), torch.arange(len(rows))
    return PromptBatch(
        tokens_BP=torch.tensor([[*row, *[0] * (width - len(row))] for row in rows]),
        lengths_B=torch.tensor([len(row) for row in rows]),
        group_B=index,
        problem_B=index,
        sample_B=torch.zeros_like(index),
    )


def gap_of_second_turn(job: JobSpec, seed: int, *, reuses: bool) -> GapStats:
    """Return the same-weights gap of a turn that goes on from one made before the update, which must not be reused."""
    knobs = EngineKnobs(reuse_prefixes=True, rollout_threads=1, train_threads=1)
    engine, old = rollout_engine(job, knobs), lively_start(job)
    g = torch.Generator().manual_seed(seed)
    new = {name: tensor + 0.05 * torch.randn(tensor.shape, generator=g) for name, tensor in old.items()}
    how = {"max_completion_len": 8, "temperature": 1.0, "seed": seed, "forced_lengths_B": torch.full((4,), 8)}
    engine.load(old, 1)
    first, _ = engine.generate(rows_of([[5, 6, 7 + row] for row in range(4)]), **how)  # type: ignore[arg-type]
    engine.load(new, 2)
    said = torch.cat([first.prompts.tokens_BP, first.completion_BT], dim=1).tolist()
    second, trace = engine.generate(rows_of([[*row, 8, 9] for row in said]), **how)  # type: ignore[arg-type]
    model = new_model(job)
    model.load_state_dict(new)
    trained = Trainer(model, job.algorithm, knobs, vocabulary_of(job).pad_id).logprobs(second, 4096)
    assert (trace.reused_tokens > 0) == reuses
    gap = gap_stats(trained, second.logprobs_BT, second.mask_BT)
    assert gap is not None
    return gap


def test_a_prefix_cache_that_outlives_an_update_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    job, longest = small_job(), PrefixStore.longest
    healthy = steps_with("mismatch", [gap_of_second_turn(job, seed, reuses=False) for seed in range(4)])
    assert mismatch(healthy, healthy).judgement is Judgement.PASS
    monkeypatch.setattr(PrefixStore, "clear", lambda _store: None)
    monkeypatch.setattr(PrefixStore, "longest", lambda store, tokens, _version: longest(store, tokens, 1))
    stale = steps_with("mismatch", [gap_of_second_turn(job, seed, reuses=True) for seed in range(4)])
    assert mismatch(stale, healthy).judgement is Judgement.FAIL


def test_logprobs_at_another_temperature_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, logprobs = small_job(temperature=0.8), gradients.token_logprobs
    healthy = run_steps(tmp_path, job=job)
    assert mismatch(healthy, healthy).judgement is Judgement.PASS
    monkeypatch.setattr(
        gradients, "token_logprobs", lambda *args, **how: logprobs(*args, **{**how, "temperature": 1.0})
    )
    verdict = mismatch(run_steps(tmp_path, job=job), healthy)
    assert verdict.judgement is Judgement.FAIL
    assert "median k3" in verdict.because


@pytest.mark.skipif(not has_int8(), reason="this CPU adds products of bytes in 16 bits, where they overflow")
def test_int8_with_a_broken_scale_is_caught(
    tmp_path: Path, healthy: list[Observation], monkeypatch: pytest.MonkeyPatch
) -> None:
    int8 = run_steps(tmp_path, rollout_dtype="int8")
    assert mismatch(int8, healthy).judgement is Judgement.PASS
    assert check_weights_arrived(int8).judgement is Judgement.PASS

    def with_broken_scale(engine: RolloutEngine, state: Mapping[str, Tensor], version: int) -> None:
        load(engine, state, version)
        engine._model.blocks[0].attention.out._product._scale_O.mul_(4)  # type: ignore[union-attr, operator]

    monkeypatch.setattr(RolloutEngine, "load", with_broken_scale)
    assert mismatch(run_steps(tmp_path, rollout_dtype="int8"), healthy).judgement is Judgement.FAIL


def test_routers_that_drift_apart_are_caught_though_routes_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experts = MoEModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, num_experts=8, top_k=2, d_expert=8)
    job = small_job(lr=1e-3).model_copy(update={"model": experts})
    healthy = run_steps(tmp_path, job=job, router_replay=True)
    assert min(step.router_agreement_frac or 0.0 for step in healthy) > 0.99
    assert mismatch(healthy, healthy).judgement is Judgement.PASS

    def noisy_routers(engine: RolloutEngine, state: Mapping[str, Tensor], version: int) -> None:
        g = torch.Generator().manual_seed(version)
        noise = {name: 0.1 * torch.randn(x.shape, generator=g) for name, x in state.items() if "router" in name}
        assert noise
        load(engine, {name: x + noise.get(name, 0.0) for name, x in state.items()}, version)

    monkeypatch.setattr(RolloutEngine, "load", noisy_routers)
    verdict = mismatch(run_steps(tmp_path, job=job, router_replay=True), healthy)
    assert verdict.judgement is Judgement.FAIL
    assert "router agreement" in verdict.because


def mean_lengths(folder: Path) -> tuple[list[float], list[Observation]]:
    runs = [run_steps(folder, 4, seed=seed) for seed in range(1, 5)]
    lengths = [sum(s.completion_tokens for s in run) / sum(s.num_rollouts for s in run) for run in runs]
    return lengths, [step for run in runs for step in run]


def test_a_rollout_that_shortens_answers_is_caught_though_its_logprobs_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline, healthy = mean_lengths(tmp_path)
    assert check_length(baseline_len_S=baseline, candidate_len_S=baseline).judgement is Judgement.PASS
    eos_id, draw = vocabulary_of(small_job()).eos_id, choose.draw

    def ends_early(weights_nV: Tensor, uniform_n: Tensor) -> Tensor:
        weights_nV = weights_nV.clone()
        weights_nV[:, eos_id] += 0.2 * weights_nV.sum(1)
        return draw(weights_nV, uniform_n)

    monkeypatch.setattr(choose, "draw", ends_early)
    shorter, steps = mean_lengths(tmp_path)
    verdict = check_length(baseline_len_S=baseline, candidate_len_S=shorter)
    assert verdict.judgement is Judgement.FAIL, verdict.because
    assert mismatch(steps, healthy).judgement is Judgement.PASS
