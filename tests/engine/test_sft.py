"""The warm start learns, is found again, and never comes back damaged."""

import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from steptune.core.errors import HealthError, JobError
from steptune.core.job import DenseModel, JobSpec, MathWorkload, SftSpec
from steptune.core.pretrained import Pretrained
from steptune.engine import sft
from steptune.engine.demonstrations import demonstrated_problems, demonstration_inputs
from steptune.engine.model import Transformer, build_model
from steptune.engine.sft import FINAL_LR_FRAC, load_or_train, lr_frac, sft_key, sft_train
from steptune.envs.math.problems import Problem
from steptune.envs.math.tokenizer import MathTokenizer
from steptune.envs.vocabulary import MATH

TINY = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=24)
JOB = JobSpec(name="tiny", model=TINY, workload=MathWorkload(levels=(1, 2)), sft=SftSpec(num_steps=3, batch_size=8))


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def with_sft(**changes: float) -> JobSpec:
    return JobSpec.model_validate({**JOB.model_dump(), "sft": {**JOB.sft.model_dump(), **changes}})


def test_the_loss_falls_on_problems_never_seen_twice() -> None:
    losses: list[float] = []
    sft_train(
        with_sft(num_steps=60, batch_size=32, lr=1e-2, label_smoothing=0.0),
        lambda _done, _all, loss: losses.append(loss),
    )
    assert losses[0] == pytest.approx(math.log(MathTokenizer().vocab_size), rel=0.05)  # knows nothing
    assert losses[-1] < 0.7 * losses[0]


def test_the_same_job_gives_the_same_start() -> None:
    assert same(sft_train(JOB), sft_train(JOB))
    assert not same(sft_train(JOB), sft_train(with_sft(seed=2)))


def test_label_smoothing_leaves_the_policy_less_certain() -> None:
    @torch.no_grad()
    def mean_top_probability(label_smoothing: float) -> float:
        model = build_model(TINY, MathTokenizer().vocab_size, seed=1)
        with torch.enable_grad():
            model.load_state_dict(sft_train(with_sft(num_steps=60, lr=1e-2, label_smoothing=label_smoothing)))
        inputs = demonstration_inputs(demonstrated_problems(JOB, 99))
        logits = model.logits(model.hidden(inputs.tokens_N, inputs.positions_N, inputs.context)[inputs.predict_C])
        return float(logits.softmax(-1).max(-1).values.mean())

    assert mean_top_probability(0.4) < 0.8 * mean_top_probability(0.0)


def test_progress_counts_up_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    sft_train(JOB, lambda done, num, _loss: seen.append((done, num)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_no_steps_return_the_fresh_model() -> None:
    fresh = build_model(TINY, MathTokenizer().vocab_size, seed=1).state_dict()
    assert same(sft_train(with_sft(num_steps=0)), fresh)


def test_only_completion_tokens_are_targets() -> None:
    problem = Problem(text="3+8+5?", answer=16, demonstration="3+8=11+5#16", level=2)
    tokenizer = MathTokenizer()
    inputs = demonstration_inputs([problem])
    assert tokenizer.decode(inputs.target_C.tolist()) == "3+8=11+5#16"
    assert inputs.target_C[-1] == tokenizer.eos_id
    # BOS and six prompt tokens: the last of them, position 6, predicts the first target
    assert inputs.predict_C.tolist() == list(range(6, 18))


def test_packed_demonstrations_have_the_loss_of_each_alone() -> None:
    problems = demonstrated_problems(JOB, 0)
    model = build_model(TINY, MathTokenizer().vocab_size, seed=1)

    def logprobs(some: list[Problem]) -> Tensor:
        inputs = demonstration_inputs(some)
        logits = model.logits(model.hidden(inputs.tokens_N, inputs.positions_N, inputs.context)[inputs.predict_C])
        return logits.log_softmax(-1).gather(1, inputs.target_C[:, None])[:, 0]

    alone = torch.cat([logprobs([problem]) for problem in problems])
    assert torch.allclose(logprobs(problems).sort().values, alone.sort().values, atol=1e-5)


def test_rl_and_sft_draw_different_problems_each_step() -> None:
    steps = [demonstrated_problems(JOB, step) for step in range(2)]
    assert len(steps[0]) == 8
    assert steps[0] != steps[1]
    assert steps[0] != demonstrated_problems(with_sft(seed=2), 0)


def test_the_learning_rate_warms_up_and_decays() -> None:
    fracs = [lr_frac(step, 300) for step in range(300)]
    assert fracs[0] < 0.1
    assert max(fracs) > 0.98
    assert fracs[-1] == pytest.approx(FINAL_LR_FRAC, abs=0.01)


def test_the_key_changes_with_what_decides_the_weights_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    base = sft_key(JOB)
    dump = JOB.model_dump()
    assert sft_key(JobSpec.model_validate({**dump, "name": "other"})) == base
    assert sft_key(JobSpec.model_validate({**dump, "workload": {"levels": (1, 2), "num_validation": 7}})) == base
    assert sft_key(JobSpec.model_validate({**dump, "workload": {"levels": (1,)}})) != base
    assert sft_key(JobSpec.model_validate({**dump, "model": {}})) != base
    assert sft_key(with_sft(lr=5e-3)) != base
    assert sft_key(with_sft(label_smoothing=0.0)) != base
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert sft_key(JOB) != base


def test_only_a_start_from_a_folder_depends_on_how_folders_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Pretrained(
        folder="/m",
        chat=False,
        weights_sha256="a",
        tokenizer_sha256="b",
        vocab_size=9,
        context_len=9,
        eos_id=1,
        pad_id=1,
    )
    jobs = JOB, JOB.model_copy(update={"model": JOB.model.model_copy(update={"pretrained": found})})
    before = [sft_key(job) for job in jobs]
    monkeypatch.setattr(sft, "FOLDER_SOURCES", ())
    own, folder = (sft_key(job) for job in jobs)
    assert own == before[0]
    assert folder != before[1]


def test_a_cached_start_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = load_or_train(JOB, tmp_path / "cache")
    monkeypatch.setattr(sft, "sft_train", lambda *_args: pytest.fail("trained again"))
    assert load_or_train(JOB, tmp_path / "cache") == path
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # no temporary file left


@pytest.mark.parametrize("damage", ["flip", "cut", "text", "empty", "nan", "foreign"])
def test_a_damaged_start_is_reported_and_replaced(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = load_or_train(JOB, tmp_path)
    good = path.read_bytes()
    if damage in ("nan", "foreign"):
        state = torch.load(path, weights_only=True)
        torch.save({n: t * torch.nan if damage == "nan" else t[:1] for n, t in state.items()}, path)
    else:
        middle = len(good) // 2
        flipped = good[:middle] + bytes([good[middle] ^ 0xFF]) + good[middle + 1 :]
        path.write_bytes({"flip": flipped, "cut": good[:middle], "text": b"not a model", "empty": b""}[damage])
    with caplog.at_level(logging.WARNING):
        load_or_train(JOB, tmp_path)
    assert "damaged" in caplog.text
    assert same(torch.load(path, weights_only=True), sft_train(JOB))


def test_a_loss_that_is_not_finite_is_refused() -> None:
    with pytest.raises(HealthError, match=r"SFT diverged.*hint: lower `sft.lr`"):
        sft_train(with_sft(lr=1e30, num_steps=5))


def test_a_gradient_that_is_not_finite_in_the_last_step_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # the loss before it is finite, and nothing looks at the weights after it
    make = sft.new_model

    def broken(job: JobSpec) -> Transformer:
        model = make(job)
        next(model.parameters()).register_hook(lambda gradient: gradient * torch.inf)
        return model

    monkeypatch.setattr(sft, "new_model", broken)
    with pytest.raises(HealthError, match=r"SFT diverged at step 0, got loss \d.*, gradient norm (nan|inf); allowed"):
        sft_train(with_sft(num_steps=1))


def test_a_demonstration_beyond_the_models_context_is_refused() -> None:
    problem = Problem(text="3+8+5?", answer=16, demonstration="3+8=11+5#16", level=2)
    # BOS, six tokens of prompt, eleven of the demonstration and the end of sequence
    assert demonstration_inputs([problem], replace(MATH, context_len=19))
    with pytest.raises(JobError, match="longer than the model's context, got 19 tokens; allowed: 18 together"):
        demonstration_inputs([problem], replace(MATH, context_len=18))
