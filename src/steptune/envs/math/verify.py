"""The verifier: 1.0 when the completion's final answer is the right integer, else 0.0."""

import re
from collections.abc import Sequence

from steptune.envs.math.problems import ANSWER_MARK, Problem, train_problem, validation_problems

MAX_DIGITS = 64
"""Digits an answer may have, leading zeros included; Python refuses to read thousands of them."""

FINAL_ANSWER = re.compile(rf"{re.escape(ANSWER_MARK)}(-?[0-9]{{1,{MAX_DIGITS}}})\Z")
"""The answer mark, an optional minus and digits, and nothing after."""


def final_answer(completion: str) -> int | None:
    """Return the integer after the last answer mark, or None when there is no such integer at the end."""
    found = FINAL_ANSWER.search(completion)
    return None if found is None else int(found.group(1))


def reward(completion: str, answer: int) -> float:
    """Return 1.0 if the final answer equals ``answer`` as an integer (``#007`` is 7), else 0.0."""
    return 1.0 if final_answer(completion) == answer else 0.0


def validate(levels: Sequence[int], num_problems: int = 200) -> tuple[Problem, ...]:
    """Return the problems, of both sides, whose own demonstration is graded wrong: none in a sound workload."""
    train = [train_problem(0, i, levels) for i in range(num_problems)]
    both = (*train, *validation_problems(num_problems, 0, levels))
    return tuple(problem for problem in both if reward(problem.demonstration, problem.answer) != 1.0)
