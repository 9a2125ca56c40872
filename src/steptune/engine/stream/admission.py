"""Rows of a stream that wait for a slot, and their way into one: what precedes their next token is computed first.

Rows of one *unit* have the same head, so with a shared prefill it is computed once: the rows of a group that have said
nothing are one, and a row that goes on is one by itself.

Shape letters: g rows of a group, k admitted rows, U units prefilled, H head of a prompt, J layer, k chosen experts.
"""

from collections import deque
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from steptune.engine.decoder import Decoder
from steptune.engine.kv_cache import KVCache
from steptune.engine.routes import NOT_RECORDED
from steptune.engine.sampling import noise_keys
from steptune.engine.slots import ROW
from steptune.engine.stream.groups import Start
from steptune.engine.stream.plan import StreamPlan
from steptune.engine.stream.table import RowTable

GROW_POSITIONS = 16
"""The cache grows by multiples of this when a longer prompt comes: a few copies in a run instead of one a prompt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Newcomer:
    """A row that waits for a slot."""

    head_H: Tensor
    line_6: Tensor
    unit: tuple[int, int]
    is_new: bool
    """It has said nothing: the experts of its prompt are not known yet."""


@final
class Admission:
    """Fills a decoder's slots. The decoder's cache is replaced by a larger one when a longer prompt comes."""

    def __init__(self, plan: StreamPlan, decoder: Decoder, table: RowTable) -> None:
        self.plan, self.decoder, self.table = plan, decoder, table
        self.waiting: deque[_Newcomer] = deque()
        self.resumed_tokens = 0
        """Positions of rows that go on which have to be computed again."""

    def make_room(self, num_prompt: int) -> None:
        """Let the cache hold prompts of ``num_prompt`` tokens and their completions; what it holds stays."""
        old, max_len = self.decoder.cache, num_prompt + self.plan.max_completion_len
        if old.max_len >= max_len:
            return
        max_len = -(-max_len // GROW_POSITIONS) * GROW_POSITIONS
        cache = KVCache(self.table.spec, old.num_slots, max_len, old.data.dtype, self.table.device)
        cache.data[:, :, :, :, : old.max_len] = old.data
        cache.states = old.states  # of fixed size
        self.decoder.cache = cache
        if self.plan.with_routes:
            self.table.record_routes(max_len)
            self.decoder.outputs = self.table.outputs

    def wait(self, start: Start, rows: list[int]) -> None:
        """Let a group's unfinished rows wait; ``rows`` are their lines in the table."""
        prompts, said = start.prompts, start.said
        keys = noise_keys(self.plan.seed, prompts.problem_B, prompts.sample_B).tolist()
        is_done_g = [False] * len(rows) if said is None else said.is_done_g.tolist()
        self.waiting.extend(self._newcomer(start, i, row, keys[i]) for i, row in enumerate(rows) if not is_done_g[i])

    @property
    def worth_it_at(self) -> int:
        """Free slots at which rows are admitted, those that wait or those that may come."""
        return min(self.plan.admit_at, len(self.waiting)) if self.waiting else self.plan.refill_at

    def admit(self) -> None:
        """Put waiting rows into the free slots, as many as fit."""
        first_slot, num_rows = self.decoder.slots.num_running, min(len(self.waiting), self.decoder.slots.num_free)
        newcomers = [self.waiting.popleft() for _ in range(num_rows)]
        if not any(len(one.head_H) for one in newcomers):
            self.decoder.begin_empty(first_slot, num_rows)
        elif self.plan.share_prefill:
            self._prefill_shared(newcomers, first_slot)
        else:
            self._note_routes(newcomers, self._prefill(newcomers, self.decoder.cache, first_slot))
        self.decoder.admit(torch.stack([one.line_6 for one in newcomers], dim=1).to(self.table.device))

    def _newcomer(self, start: Start, i: int, row: int, key: int) -> _Newcomer:
        num_prompt = int(start.prompts.lengths_B[i])
        tokens = start.prompts.tokens_BP[i, :num_prompt]
        num_said = 0 if start.said is None else int(start.said.length_g[i])
        if start.said is not None and num_said:
            tokens = torch.cat((tokens, start.said.completion_gT[i, :num_said]))
            self.resumed_tokens += len(tokens) - 1
        line = [row, len(tokens) - 1, num_said, int(start.limit_g[i]), key, int(tokens[-1])]
        return _Newcomer(
            head_H=tokens[:-1],
            line_6=torch.tensor(line),
            unit=(start.number, row if num_said else -1),
            is_new=num_said == 0,
        )

    def _prefill_shared(self, newcomers: list[_Newcomer], first_slot: int) -> None:
        """Compute every distinct head once and fork it."""
        units = {one.unit: one for one in newcomers}
        order = {unit: u for u, unit in enumerate(units)}
        max_len = max(len(one.head_H) for one in units.values())
        cache, device = self.decoder.cache, self.table.device
        shared = KVCache(self.table.spec, len(units), max_len, cache.data.dtype, device)
        routes_ULJk = self._prefill(list(units.values()), shared, 0)
        unit_k = torch.tensor([order[one.unit] for one in newcomers], device=device)
        cache.fork(shared, unit_k, first_slot, max_len)
        self._note_routes(newcomers, None if routes_ULJk is None else routes_ULJk[unit_k])

    def _prefill(self, newcomers: list[_Newcomer], cache: KVCache, first_slot: int) -> Tensor | None:
        """Compute heads into ``cache``; return their experts, line by line, if they are recorded."""
        heads, device = [one.head_H for one in newcomers], self.table.device
        head_k = torch.tensor([len(head) for head in heads])
        tokens_kH = torch.nn.utils.rnn.pad_sequence(heads, batch_first=True, padding_value=self.plan.pad_id)
        table = self.table.outputs.routes_BLJk
        routes_kLJk = None if table is None else torch.full_like(table[: len(heads)], NOT_RECORDED)
        self.decoder.prefill(
            tokens_kH.to(device), head_k.to(device), cache, first_slot=first_slot, routes_kLJk=routes_kLJk
        )
        return routes_kLJk

    def _note_routes(self, newcomers: list[_Newcomer], routes_kLJk: Tensor | None) -> None:
        """Book the experts of new prompts; a row that goes on keeps those that sampled it."""
        table = self.table.outputs.routes_BLJk
        if table is None or routes_kLJk is None:
            return
        for i, one in enumerate(newcomers):
            if one.is_new:
                table[int(one.line_6[ROW])] = routes_kLJk[i]
