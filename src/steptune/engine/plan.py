"""Which rows are trained together: the micro-batches of one rollout batch, as exact counts.

Pure Python, no torch: the trainer builds its tensors from a plan, and the forecaster counts positions with
the same code. The surprise: both layouts with and without padding are the same thing to the model, a flat
list of positions cut into *runs* of equally wide rows. A padded micro-batch is one run; a packed one has one
run per distinct row length and no padding at all, so attention needs neither mask nor gather index (equal
runs were as fast as or faster than per-row attention and 1 to 16 padded buckets, forward and backward, at
256 rows of about 24 tokens on 1 and 2 threads; measured with torch 2.13 on an Intel Xeon with AVX-512).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from steptune.core.errors import TrialError, explain
from steptune.engine.micro_batch import MicroBatch, Run, equal_runs
from steptune.engine.plan_shared import plan_shared
from steptune.engine.rank_split import split_groups, split_rows

Layout = Literal["padded", "sorted", "packed", "shared_prefix"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainPlan:
    """All micro-batches of one rollout batch, by optimizer update."""

    updates: tuple[tuple[MicroBatch, ...], ...]
    """Every row of the batch stands in exactly one micro-batch of one update, of one rank."""
    update_rows: tuple[range, ...]
    """Rows of each update, those of other ranks included: what its loss is normalised by."""
    active_tokens: int
    """Positions computed that are real tokens, a shared prompt counted as often as it is computed."""

    @property
    def num_shared_prompts(self) -> int:
        """Prompts computed for several rows; above the number of groups where a group had to be split."""
        return sum(len(micro.prompts) for micro in self.micro_batches)

    @property
    def micro_batches(self) -> tuple[MicroBatch, ...]:
        """Every micro-batch, in the order of execution."""
        return tuple(micro for update in self.updates for micro in update)

    @property
    def padded_tokens(self) -> int:
        """Positions computed, padding included."""
        return sum(micro.num_positions for micro in self.micro_batches)


def plan_batch(
    prompt_lengths_B: Sequence[int],
    completion_lengths_B: Sequence[int],
    *,
    layout: Layout,
    token_budget: int,
    max_completion_len: int,
    num_updates: int = 1,
    group_size: int = 1,
    group_B: Sequence[int] | None = None,
    rank: int = 0,
    num_ranks: int = 1,
) -> TrainPlan:
    """Return the plan of one rollout batch, for ``rank`` of ``num_ranks`` that share its rows (see `rank_split`).

    Rows are first cut into ``num_updates`` optimizer mini-batches (see `update_ranges`), each then laid out
    on its own. ``token_budget`` bounds the positions of a micro-batch; a single row always fits.

    - ``padded``: rows in their order, all as wide as the longest row of the whole rollout batch (TRL pads the
      batch once, before cutting it). The number of rows is fixed by the widest row the limits allow, longest
      prompt + ``max_completion_len``, so a batch that happens to be long never needs more memory than planned.
    - ``sorted``: longest rows first, each micro-batch as wide as its longest row and filled to the budget.
    - ``packed``: longest rows first, concatenated without padding until the budget is full.
    - ``shared_prefix``: whole groups, largest first, without padding; a group of G completions of lengths R takes
      P + sum(R) positions instead of G * P + sum(R). A group larger than the budget is split, its prompt repeated.
      ``group_B`` says which rows share a prompt; None: every ``group_size`` neighbours do.

    Raises:
        TrialError: a prompt or completion is empty.
    """
    assert prompt_lengths_B, "a plan needs at least one row"
    _refuse_empty(prompt_lengths_B, completion_lengths_B)
    lengths_B = [p + c for p, c in zip(prompt_lengths_B, completion_lengths_B, strict=True)]
    group_B = group_B if group_B is not None else [row // group_size for row in range(len(lengths_B))]
    longest_possible = max(prompt_lengths_B) + max_completion_len
    update_rows = update_ranges(len(lengths_B), group_size=group_size, num_updates=num_updates)
    updates: list[tuple[MicroBatch, ...]] = []
    for all_rows in update_rows:
        match layout:
            case "padded":
                rows = split_rows(all_rows, [1] * len(lengths_B), num_ranks)[rank]  # padded, all rows cost the same
                micros = _padded(rows, max(lengths_B), num_rows=max(1, token_budget // longest_possible))
            case "sorted":
                micros = _sorted(split_rows(all_rows, lengths_B, num_ranks)[rank], lengths_B, token_budget)
            case "packed":
                micros = _packed(split_rows(all_rows, lengths_B, num_ranks)[rank], lengths_B, token_budget)
            case "shared_prefix":
                rows = split_groups(all_rows, group_B, prompt_lengths_B, completion_lengths_B, num_ranks)[rank]
                micros = plan_shared(rows, group_B, prompt_lengths_B, completion_lengths_B, token_budget)
        updates.append(tuple(micros))
    active = sum(lengths_B[row] for micros in updates for micro in micros for row in micro.rows)
    if layout == "shared_prefix":
        active = sum(micro.num_positions for micros in updates for micro in micros)
    return TrainPlan(updates=tuple(updates), update_rows=tuple(update_rows), active_tokens=active)


def update_ranges(num_rows: int, *, group_size: int, num_updates: int) -> list[range]:
    """Cut rows into contiguous optimizer mini-batches of whole groups, sizes differing by at most one group.

    Fewer groups than updates (dynamic sampling may leave few) gives one update per group.
    """
    assert num_rows % group_size == 0, f"{num_rows} rows are not whole groups of {group_size}"
    num_groups = num_rows // group_size
    count = min(num_updates, num_groups)
    edges = [group_size * (num_groups * i // count) for i in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(edges)]


def _padded(rows: Sequence[int], width: int, *, num_rows: int) -> list[MicroBatch]:
    chunks = [tuple(rows[i : i + num_rows]) for i in range(0, len(rows), num_rows)]
    return [MicroBatch(rows=chunk, runs=(Run(width, len(chunk)),)) for chunk in chunks]


def _sorted(rows: Sequence[int], lengths_B: Sequence[int], token_budget: int) -> list[MicroBatch]:
    remaining, micros = _longest_first(rows, lengths_B), list[MicroBatch]()
    while remaining:
        width = lengths_B[remaining[0]]
        num_rows = max(1, token_budget // width)
        chunk, remaining = remaining[:num_rows], remaining[num_rows:]
        micros.append(MicroBatch(rows=tuple(chunk), runs=(Run(width, len(chunk)),)))
    return micros


def _packed(rows: Sequence[int], lengths_B: Sequence[int], token_budget: int) -> list[MicroBatch]:
    chunks, room = list[list[int]](), 0
    for row in _longest_first(rows, lengths_B):
        if lengths_B[row] > room:
            chunks.append([])
            room = token_budget
        chunks[-1].append(row)
        room -= lengths_B[row]
    return [MicroBatch(rows=tuple(chunk), runs=equal_runs([(lengths_B[row], 0) for row in chunk])) for chunk in chunks]


def _longest_first(rows: Sequence[int], lengths_B: Sequence[int]) -> list[int]:
    return sorted(rows, key=lambda row: -lengths_B[row])


def _refuse_empty(prompt_lengths_B: Sequence[int], completion_lengths_B: Sequence[int]) -> None:
    for name, lengths_B in (("prompt", prompt_lengths_B), ("completion", completion_lengths_B)):
        if min(lengths_B) < 1:
            raise TrialError(
                explain(
                    f"row {lengths_B.index(min(lengths_B))} of the rollout batch has an empty {name}",
                    got=f"{min(lengths_B)} tokens",
                    allowed="1 or more",
                    hint="leave such rollouts out of the batch; the end of sequence counts as a token",
                )
            )
