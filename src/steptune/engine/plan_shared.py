"""Micro-batches in which a group's prompt is computed once and continued by every completion of the group.

G * (P + R) positions become P + G * R. Whole groups stay together where the budget allows; the one surprise is
a group larger than the budget, which is split with its prompt computed again in every part, and counted again.
Attention-only models: a recurrent layer would have to fork its state in the middle of a sequence.
"""

from collections import defaultdict
from collections.abc import Sequence

from steptune.core.model import HybridFields, ModelSpec
from steptune.engine.micro_batch import MicroBatch, equal_runs


def can_share_prompts(model: ModelSpec) -> bool:
    """Return whether a model's completions can continue a prompt computed once: attention-only ones can."""
    return not isinstance(model, HybridFields)


def plan_shared(
    rows: Sequence[int],
    group_B: Sequence[int],
    prompt_lengths_B: Sequence[int],
    completion_lengths_B: Sequence[int],
    token_budget: int,
) -> list[MicroBatch]:
    """Return micro-batches of whole groups, largest first; a group above ``token_budget`` is split.

    A group of G completions of lengths R takes P + sum(R) positions, each of its parts P + its own sum(R).
    ``group_B`` says which rows share a prompt.
    """

    def cost(family: Sequence[int]) -> int:
        return prompt_lengths_B[family[0]] + sum(completion_lengths_B[row] for row in family)

    families = _families(rows, group_B, prompt_lengths_B, completion_lengths_B, token_budget)
    chunks, room = list[list[list[int]]](), 0
    for family in sorted(families, key=cost, reverse=True):
        if cost(family) > room:
            chunks.append([])
            room = token_budget
        chunks[-1].append(family)
        room -= cost(family)
    return [_shared_micro(chunk, prompt_lengths_B, completion_lengths_B) for chunk in chunks]


def _families(
    rows: Sequence[int],
    group_B: Sequence[int],
    prompt_lengths_B: Sequence[int],
    completion_lengths_B: Sequence[int],
    token_budget: int,
) -> list[list[int]]:
    """Return the rows that will share one computed prompt: a group, or as much of it as the budget holds."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: -completion_lengths_B[row]):
        groups[group_B[row]].append(row)
    families: list[list[int]] = []
    for group in groups.values():
        room = -1
        for row in group:
            if completion_lengths_B[row] > room:
                families.append([])
                room = token_budget - prompt_lengths_B[row]
            families[-1].append(row)
            room -= completion_lengths_B[row]
    return families


def _shared_micro(
    families: Sequence[Sequence[int]], prompt_lengths_B: Sequence[int], completion_lengths_B: Sequence[int]
) -> MicroBatch:
    """Return one micro-batch: prompts and rows each sorted so that equal lengths are neighbours."""
    by_prompt = sorted(families, key=lambda family: -prompt_lengths_B[family[0]])
    prompts = [family[0] for family in by_prompt]
    owner = {row: number for number, family in enumerate(by_prompt) for row in family}
    rows = sorted(owner, key=lambda row: (-prompt_lengths_B[row], -completion_lengths_B[row]))
    return MicroBatch(
        rows=tuple(rows),
        runs=(
            *equal_runs([(prompt_lengths_B[row], 0) for row in prompts]),
            *equal_runs([(completion_lengths_B[row], prompt_lengths_B[row]) for row in rows]),
        ),
        prompts=tuple(prompts),
        prompt_of=tuple(owner[row] for row in rows),
    )
