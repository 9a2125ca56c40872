"""Accuracy on the fixed held-out problems.

The noise is keyed by problem, so two policies are compared on the same problems *and* the same dice: the
paired spread is far below that of independent sampling. Always float32, whatever the rollout's format. How many run at
once is bounded by bytes (`evaluation_rows`).
"""

from functools import cache

import torch

from steptune.core.job import JobSpec
from steptune.core.trial import EvalResult
from steptune.engine.evaluation_rows import evaluation_rows
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.produce import prompt_batch, rollout_engine
from steptune.engine.types import RolloutBatch
from steptune.envs.math.problems import Problem, validation_problems
from steptune.envs.math.verify import reward
from steptune.envs.vocabulary import Vocabulary, vocabulary_of

EVAL_SEED = 20_240_229
"""Seed of the dice; any fixed number that no run uses as its own."""

EVAL_KNOBS = EngineKnobs(handover="alias", compact_finished=True)
"""Continuous batching: as one row ends, the next problem takes its place."""

held_out = cache(validation_problems)
"""`validation_problems`, made once per process."""


def evaluate(model: Transformer, job: JobSpec, *, step: int, with_greedy: bool = False) -> EvalResult:
    """Return the accuracy of one sample per held-out problem at the training temperature.

    Raises:
        HealthError: the weights give NaN.
    """
    vocabulary = vocabulary_of(job)
    problems = held_out(job.workload.num_validation, job.workload.seed, job.workload.levels)
    batch = _answers(model, job, problems, greedy=False)
    greedy = _accuracy(_answers(model, job, problems, greedy=True), problems, vocabulary) if with_greedy else None
    return EvalResult(
        step=step,
        accuracy=_accuracy(batch, problems, vocabulary),
        greedy_accuracy=greedy,
        num_problems=len(problems),
        truncated_frac=float((~batch.finished_B).float().mean()),
        completion_len_mean=float(batch.lengths_B.float().mean()),
    )


def _answers(model: Transformer, job: JobSpec, problems: tuple[Problem, ...], *, greedy: bool) -> RolloutBatch:
    prompts = prompt_batch([problem.text for problem in problems], range(len(problems)), 1, vocabulary_of(job))
    longest = prompts.tokens_BP.shape[1] + job.algorithm.max_completion_len
    num_tokens = model.embed.num_embeddings
    rows = evaluation_rows(job.model, num_problems=len(problems), num_tokens=num_tokens, longest=longest)
    engine = rollout_engine(job, EVAL_KNOBS.model_copy(update={"rollout_concurrency": rows}), shared=model)
    batch, _ = engine.generate(
        prompts,
        max_completion_len=job.algorithm.max_completion_len,
        temperature=job.algorithm.temperature,
        seed=EVAL_SEED,
        greedy=greedy,
    )
    return batch


def _accuracy(batch: RolloutBatch, problems: tuple[Problem, ...], vocabulary: Vocabulary) -> float:
    rows = zip(batch.completion_BT.tolist(), batch.lengths_B.tolist(), problems, strict=True)
    graded = [reward(vocabulary.decode(tokens[:length]), problem.answer) for tokens, length, problem in rows]
    return float(torch.tensor(graded).mean())
