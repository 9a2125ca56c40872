"""Is a baseline a straw man? The same step in live TRL and in our engine under the lever table, in CPU seconds.

Same model shape, same prompts, same completion lengths (forced on both sides), one torch thread. vLLM is not
in this comparison: for *best practice* only the training part is compared.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from live_grpo import config
from theirs import llama_like, numbered_tokenizer, spell
from torch import Tensor

from steptune.adapters.embedded.baselines import best_practice_levers, default_levers
from steptune.core.framework import Lever
from steptune.core.job import JobSpec
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.rollout import RolloutEngine
from steptune.engine.trainer import Trainer
from steptune.engine.types import PromptBatch, RolloutBatch, ScoredBatch
from steptune.envs.math.problems import train_problem
from steptune.envs.math.tokenizer import MathTokenizer

NOISE = 1.1
"""CPU seconds of one step repeat within a tenth on a shared machine; ours took 0.5 to 0.85 of TRL's (2026-11-30)."""

TOKENIZER = MathTokenizer()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """One thread: CPU seconds then do not count threads that spin while they wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True, slots=True)
class SameStep:
    """What both sides are given."""

    job: JobSpec
    prompt_ids: list[list[int]]
    lengths_B: Tensor

    @property
    def longest_prompt_len(self) -> int:
        """Tokens."""
        return max(map(len, self.prompt_ids))


@pytest.fixture(scope="module")
def same(job: JobSpec) -> SameStep:
    """Return the job's first prompts and lengths about as the example's: mean 13, one row in 50 at the limit."""
    draw, limit = random.Random(0), job.algorithm.max_completion_len
    problems = [train_problem(1, i, job.workload.levels) for i in range(job.algorithm.prompts_per_step)]
    lengths = [min(limit, max(2, round(11 * draw.lognormvariate(0, 0.5)))) for _ in range(256)]
    return SameStep(
        job=job,
        prompt_ids=[TOKENIZER.encode_prompt(problem.text) for problem in problems],
        lengths_B=torch.tensor([limit if i % 50 == 0 else length for i, length in enumerate(lengths)]),
    )


@pytest.mark.filterwarnings("ignore")
def test_our_default_is_no_slower_than_the_live_default(
    trl: ModuleType, same: SameStep, tmp_path: Path, note: Callable[[str], None]
) -> None:
    theirs = trl_step(config(same.job, tmp_path, max_steps=2), same)
    ours = our_step(default_levers(same.job, longest_prompt_len=same.longest_prompt_len), same)
    note(f"default: ours {ours}, live TRL {theirs}")
    assert ours.rollout_cpu_s < NOISE * theirs.rollout_cpu_s
    assert ours.train_cpu_s < NOISE * theirs.train_cpu_s


@pytest.mark.filterwarnings("ignore")
def test_our_best_practice_trains_no_slower_than_live_trl_so_set(
    trl: ModuleType, same: SameStep, tmp_path: Path, note: Callable[[str], None]
) -> None:
    advice = {"bf16": False, "gradient_checkpointing": False}
    rows = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 8}
    theirs = trl_step(config(same.job, tmp_path, max_steps=2, **advice, **rows), same)
    ours = our_step(best_practice_levers(same.job, longest_prompt_len=same.longest_prompt_len), same)
    note(f"best practice: ours {ours}, live TRL without vLLM {theirs}")
    assert ours.train_cpu_s < NOISE * theirs.train_cpu_s


def test_live_trl_is_given_our_very_tokens(trl: ModuleType, same: SameStep) -> None:
    tokenizer = numbered_tokenizer()
    for ids in same.prompt_ids:
        assert tokenizer(spell(ids))["input_ids"] == ids


class Cost(NamedTuple):
    """CPU seconds of one step's two halves."""

    rollout_cpu_s: float
    train_cpu_s: float

    def __str__(self) -> str:
        return f"rollout {self.rollout_cpu_s:.2f} + train {self.train_cpu_s:.2f} CPU-s"


def trl_step(arguments: Any, same: SameStep) -> Cost:
    """Return what `generate` and the rest of TRL's last step cost; the first step is warm-up."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    marks, generate_cpu_s = list[float](), list[float]()

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            marks.append(time.process_time())

    model = llama_like(same.job)
    _force_lengths(model, same.lengths_B, generate_cpu_s)
    texts = [spell(ids) for ids in same.prompt_ids]
    GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(i % 3 == 0) for i in range(len(completions))],
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": texts}),
        processing_class=numbered_tokenizer(),
        callbacks=[Clock()],
    ).train()
    return Cost(generate_cpu_s[-1], marks[-1] - marks[-2] - generate_cpu_s[-1])


def _force_lengths(model: Any, lengths_B: Tensor, generate_cpu_s: list[float]) -> None:
    """Make ``model.generate`` end row i at exactly its length, and note its CPU seconds."""
    plain = model.generate

    def generate(**kwargs: Any) -> Any:
        prompt_len = kwargs["input_ids"].shape[1]

        def force(ids: Tensor, scores: Tensor) -> Tensor:
            ends_B = lengths_B == ids.shape[1] - prompt_len + 1
            scores[:, TOKENIZER.eos_id] = -torch.inf
            scores[ends_B] = -torch.inf
            scores[ends_B, TOKENIZER.eos_id] = 0.0
            return scores

        start_s = time.process_time()
        out = plain(**kwargs, logits_processor=[force])
        generate_cpu_s.append(time.process_time() - start_s)
        return out

    model.generate = generate


def our_step(levers: tuple[Lever, ...], same: SameStep) -> Cost:
    """Return what the engine's rollout and training of the same step cost; a first one is warm-up."""
    algorithm = same.job.algorithm
    knobs = EngineKnobs.model_validate({lever.knob: lever.value for lever in levers})
    model = build_model(same.job.model, TOKENIZER.vocab_size, seed=0)
    engine = RolloutEngine(
        same.job.model, knobs, vocab_size=TOKENIZER.vocab_size, pad_id=TOKENIZER.pad_id, eos_id=TOKENIZER.eos_id
    )
    trainer = Trainer(model, algorithm, knobs, TOKENIZER.pad_id)
    prompts, recorder = prompt_batch(same.prompt_ids, algorithm.group_size), Recorder()
    for _ in range(2):
        start_s = time.process_time()
        engine.load(model.state_dict(), version=0)
        rollout, _trace = engine.generate(
            prompts,
            max_completion_len=algorithm.max_completion_len,
            temperature=algorithm.temperature,
            seed=0,
            forced_lengths_B=same.lengths_B,
        )
        rolled_s = time.process_time()
        trainer.update(trainer.prepare(scored(rollout), recorder), weights_version=0, recorder=recorder)
        end_s = time.process_time()
    return Cost(rolled_s - start_s, end_s - rolled_s)


def scored(rollout: RolloutBatch) -> ScoredBatch:
    """Return the batch with advantage 1 everywhere; what it is does not change the cost."""
    ones_B = torch.ones(len(rollout.lengths_B))
    return ScoredBatch(
        rollout=rollout, raw_reward_B=ones_B, reward_B=ones_B, advantage_B=ones_B, train_mask_B=ones_B.bool()
    )


def prompt_batch(prompt_ids: list[list[int]], group_size: int) -> PromptBatch:
    """Return every prompt ``group_size`` times, right-padded."""
    width = max(map(len, prompt_ids))
    padded = [ids + [TOKENIZER.pad_id] * (width - len(ids)) for ids in prompt_ids]
    row_B = torch.arange(len(prompt_ids) * group_size)
    return PromptBatch(
        tokens_BP=torch.tensor(padded).repeat_interleave(group_size, dim=0),
        lengths_B=torch.tensor([len(ids) for ids in prompt_ids]).repeat_interleave(group_size),
        group_B=row_B // group_size,
        problem_B=row_B // group_size,
        sample_B=row_B % group_size,
    )
