"""Forwards over rows in slots: prompts into the cache, one token of every row, the slots that close up again.

Who is in which slot is its caller's to decide: `generation` runs one batch to its end, a stream never ends.
The surprise: the last token of a prompt is not prefilled but fed by the first `step`, so a newcomer needs no step of
its own.

Shape letters: n running rows, k admitted rows, H head of a prompt (all tokens but the last), V vocab.
"""

from typing import final

import torch
from torch import Tensor

from steptune.engine.choose import Choose
from steptune.engine.context import Context
from steptune.engine.decode_weights import Head
from steptune.engine.ends import is_end
from steptune.engine.knobs import Dispatch
from steptune.engine.kv_cache import KVCache
from steptune.engine.model import Transformer
from steptune.engine.outputs import Outputs
from steptune.engine.routes import RouteTape, write_routes
from steptune.engine.slots import GENERATED, POSITION, ROW, TOKEN, Slots

PREFILL_CHUNK_TOKENS = 8192
"""Prompt positions computed at once: bounds a large prefill (its widest activation is 25 MB at the default model)."""


@final
class Decoder:
    """Owns the slots; model, cache and outputs are its caller's, all on one device."""

    def __init__(
        self,
        model: Transformer,
        head: Head,
        cache: KVCache,
        outputs: Outputs,
        *,
        num_slots: int,
        choose: Choose,
        eos_ids: tuple[int, ...],
        moe_dispatch: Dispatch,
    ) -> None:
        self.model, self.head, self.cache, self.outputs = model, head, cache, outputs
        self.slots = Slots(num_slots, cache.data.device)
        self.choose, self.eos_ids = choose, eos_ids
        self.moe_dispatch: Dispatch = moe_dispatch
        self.prefill_tokens = 0
        """Prompt positions computed, padding included."""
        self.running: list[int] = []
        """Rows of every iteration."""
        self.prefix_len = 0
        """Above every position of a running row."""

    def prefill(
        self, tokens_kH: Tensor, head_k: Tensor, cache: KVCache, *, first_slot: int, routes_kLJk: Tensor | None
    ) -> None:
        """Compute right-padded heads of ``head_k`` tokens into ``cache``; ``routes_kLJk`` takes their experts."""
        width = tokens_kH.shape[1]
        position_H = torch.arange(width, device=tokens_kH.device)
        chunk_len = max(1, PREFILL_CHUNK_TOKENS // width)
        for start in range(0, len(tokens_kH), chunk_len):
            chunk_kH = tokens_kH[start : start + chunk_len]
            context = self._at_prompts(cache, first_slot + start, head_k[start:][:chunk_len], width)
            self.model.hidden(chunk_kH, position_H, context)
            if routes_kLJk is not None and context.routes is not None:
                row_k1 = torch.arange(start, start + len(chunk_kH), device=tokens_kH.device)[:, None]
                write_routes(routes_kLJk, context.routes, row_k1, position_H)
            self.prefill_tokens += chunk_kH.numel()

    def begin_empty(self, first_slot: int, num_rows: int) -> None:
        """Prepare slots for rows whose heads are empty: a recurrent layer must not go on from who was there before."""
        if self.cache.states is not None:
            self.cache.states.empty(first_slot, num_rows)

    def admit(self, lines_6k: Tensor) -> None:
        """Let rows run whose heads are in the cache, behind those that run (lines: see `slots`)."""
        self.slots.admit(lines_6k)
        self._measure_prefix()

    def step(self) -> Tensor:
        """Decode one token of every running row; return bool [n], which rows ended with it."""
        slots = self.slots
        position_n = slots.line(POSITION)
        context = self._at_tokens(position_n)
        hidden_nD = self.model.hidden(slots.line(TOKEN), position_n, context)
        chosen = self.choose(self.head(hidden_nD).float(), slots)
        row_n = slots.line(ROW)
        self.outputs.write(chosen, row_n, slots.line(GENERATED))
        if self.outputs.routes_BLJk is not None and context.routes is not None:
            write_routes(self.outputs.routes_BLJk, context.routes, row_n, position_n)
        self.running.append(slots.num_running)
        slots.advance(chosen.token_n)
        self.prefix_len += 1
        return is_end(chosen.token_n, self.eos_ids) | slots.is_at_limit()

    def retire(self, done_n: Tensor) -> None:
        """Let rows go; the last ones move into the holes."""
        source, target = self.slots.retire(done_n)
        self.cache.move(source, target, self.prefix_len)
        if self.slots.num_running:
            self._measure_prefix()

    def tape(self) -> RouteTape | None:
        """Return what records a forward's experts, if they are to be recorded."""
        return None if self.outputs.routes_BLJk is None else RouteTape()

    def _measure_prefix(self) -> None:
        self.prefix_len = int(self.slots.line(POSITION).max()) + 1

    def _at_prompts(self, cache: KVCache, first_slot: int, head_k: Tensor, width: int) -> Context:
        states = cache.states
        return Context(
            attend=cache.attend_prompts(first_slot),
            recur=states.at_prompts(first_slot, head_k, width) if states else None,
            moe_dispatch=self.moe_dispatch,
            routes=self.tape(),
        )

    def _at_tokens(self, position_n: Tensor) -> Context:
        states = self.cache.states
        return Context(
            attend=self.cache.attend_tokens(position_n, self.prefix_len),
            recur=states.at_tokens(len(position_n)) if states else None,
            moe_dispatch=self.moe_dispatch,
            routes=self.tape(),
        )
