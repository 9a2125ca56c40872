"""One rollout batch from prompts to completions: who waits, who decodes, who leaves.

::

    waiting rows --admit--> prefill (all prompt tokens but the last) --> slots --decode--> outputs
                                     ^ or a fork of the group's shared prefill  |
    waves      (finished rows stay):   the next wave is admitted when the last row of this one is done
    continuous (finished rows leave):  rows are admitted as soon as enough slots are free

The last prompt token is fed by the first decode iteration, so a row of T completion tokens takes T iterations
and a newcomer needs no step of its own. A finished row of a wave decodes on as dead weight; what it then
writes lies behind its end and is cut off by whoever reads the outputs.

Shape letters: n running rows, k admitted rows, U distinct prompts, B rows of the batch, P prompt token,
T completion token, V vocab.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from steptune.engine.choose import Choose
from steptune.engine.context import Context
from steptune.engine.decode_weights import Head
from steptune.engine.decoder import Decoder
from steptune.engine.events import Recorder
from steptune.engine.knobs import Dispatch
from steptune.engine.kv_cache import KVCache
from steptune.engine.model import Transformer
from steptune.engine.outputs import Outputs
from steptune.engine.prefix_store import PrefixStore, StoredPrefix
from steptune.engine.routes import RouteTape, write_routes
from steptune.engine.slots import GENERATED, POSITION, ROW
from steptune.engine.spent import Spent
from steptune.engine.types import PromptBatch, RolloutTrace
from steptune.engine.waiting import Waiting

ADMIT_FRAC = 1 / 16
"""Free slots, as a part of all, worth a prefill of their own: one by one, every finished row would cost a forward."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How a batch is to be generated: the rollout's levers, resolved for this batch."""

    num_slots: int
    share_prefill: bool
    continuous: bool
    """Finished rows leave at once."""
    eos_ids: tuple[int, ...]
    moe_dispatch: Dispatch
    expected_B: Tensor | None
    """Tokens expected of each row, longest first; None admits in order of arrival (`waiting`)."""
    turns: "Turns | None"
    """Where prompts find what earlier turns computed, and rows leave it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turns:
    """Earlier turns under one weight version."""

    store: PrefixStore
    version: int


@final
class Generation:
    """Runs one batch; use once. Prompts, cache, outputs and model are on one device."""

    def __init__(
        self,
        model: Transformer,
        head: Head,
        cache: KVCache,
        plan: Plan,
        prompts: PromptBatch,
        *,
        limit_B: Tensor,
        key_B: Tensor,
        choose: Choose,
        outputs: Outputs,
        recorder: Recorder | None,
    ) -> None:
        self._model, self._cache, self._plan, self._prompts = model, cache, plan, prompts
        self._outputs = outputs
        self._decoder = Decoder(
            model,
            head,
            cache,
            outputs,
            num_slots=plan.num_slots,
            choose=choose,
            eos_ids=plan.eos_ids,
            moe_dispatch=plan.moe_dispatch,
        )
        self._slots = self._decoder.slots
        self._head_len, self._head_B = prompts.tokens_BP.shape[1] - 1, prompts.lengths_B - 1
        self._entry_6B = _entry_table(prompts, limit_B, key_B)
        self._device = prompts.tokens_BP.device
        self._waiting = Waiting(prompts.group_B, plan.expected_B)
        self._reused_tokens = 0
        self._spent = Spent(recorder)
        self._shared: KVCache | None = None
        self._shared_routes: Tensor | None = None
        self._prompt_of_B = torch.zeros_like(limit_B)

    def run(self) -> RolloutTrace:
        """Generate every row; return what it cost."""
        with torch.inference_mode():
            if (self._plan.share_prefill or self._plan.turns is not None) and self._head_len:
                with self._spent.booked("prefill"):
                    self._prefill_shared()
            while self._waiting or self._slots.num_running:
                with self._spent.booked("prefill"):
                    self._admit()
                with self._spent.booked("decode"):
                    self._decode_continuous() if self._plan.continuous else self._decode_wave()
        prefill_s, decode_s = self._spent.take()
        return RolloutTrace(
            prefill_tokens=self._decoder.prefill_tokens,
            decode_iterations=len(self._decoder.running),
            reused_tokens=self._reused_tokens,
            running_I=tuple(self._decoder.running),
            prefill_s=prefill_s,
            decode_s=decode_s,
        )

    def _prefill_shared(self) -> None:
        """Compute every distinct prompt once; the rows of a group are adjacent."""
        group_B = self._prompts.group_B
        is_first_B = torch.ones_like(group_B, dtype=torch.bool)
        is_first_B[1:] = group_B[1:] != group_B[:-1]
        self._prompt_of_B = is_first_B.cumsum(0) - 1
        tokens_UP, head_U = self._prompts.tokens_BP[is_first_B], self._head_B[is_first_B]
        stored = self._stored(tokens_UP, head_U)
        # twice the length: the padding of new tokens may end behind the longest prompt
        max_len, dtype = self._head_len * (2 if stored else 1), self._cache.data.dtype
        self._shared = KVCache(self._model.spec, len(tokens_UP), max_len, dtype, self._device)
        if self._outputs.routes_BLJk is not None:
            self._shared_routes = self._outputs.routes_BLJk[is_first_B].clone()
        if stored:
            self._prefill_suffixes(tokens_UP, head_U, self._shared, stored)
        else:
            tokens_UH = tokens_UP[:, : self._head_len]
            self._decoder.prefill(tokens_UH, head_U, self._shared, first_slot=0, routes_kLJk=self._shared_routes)

    def _stored(self, tokens_UP: Tensor, head_U: Tensor) -> dict[int, StoredPrefix]:
        """Return the earlier turn that each prompt continues, by prompt."""
        turns = self._plan.turns
        if turns is None:
            return {}
        heads = [row[:n] for row, n in zip(tokens_UP.tolist(), head_U.tolist(), strict=True)]
        found = {u: turns.store.longest(head, turns.version) for u, head in enumerate(heads)}
        return {u: entry for u, entry in found.items() if entry is not None}

    def _prefill_suffixes(
        self, tokens_UP: Tensor, head_U: Tensor, cache: KVCache, stored: dict[int, StoredPrefix]
    ) -> None:
        """Compute what follows each prompt's stored part; experts of the stored part stay unrecorded."""
        start_U = torch.tensor([stored[u].num_tokens if u in stored else 0 for u in range(len(head_U))]).to(head_U)
        for u, entry in stored.items():
            cache.write(u, entry)
        self._reused_tokens += int(start_U.sum())
        num_new_U = head_U - start_U
        width = int(num_new_U.max())
        if not width:
            return
        position_US = start_U[:, None] + torch.arange(width, device=self._device)
        token_US = tokens_UP.gather(1, position_US.clamp(max=tokens_UP.shape[1] - 1))
        context = Context(
            attend=cache.attend_suffixes(position_US, int(position_US.max()) + 1),
            recur=cache.states.after_prompts(0, num_new_U, width) if cache.states else None,
            moe_dispatch=self._plan.moe_dispatch,
            routes=self._decoder.tape(),
        )
        self._model.hidden(token_US, position_US, context)
        if self._shared_routes is not None and context.routes is not None:
            self._write_suffix_routes(self._shared_routes, context.routes, position_US)
        self._decoder.prefill_tokens += token_US.numel()

    def _write_suffix_routes(self, routes_ULJk: Tensor, tape: RouteTape, position_US: Tensor) -> None:
        """Book the experts of new tokens; padding beyond the table lands on its last place, which no prompt fills."""
        row_U1 = torch.arange(len(position_US), device=self._device)[:, None]
        write_routes(routes_ULJk, tape, row_U1, position_US.clamp(max=routes_ULJk.shape[1] - 1))

    def _keep(self, done_n: Tensor) -> None:
        """Leave what the rows that have just ended computed to later turns."""
        turns = self._plan.turns
        if turns is None:
            return
        for slot in done_n.nonzero()[:, 0].tolist():
            row, num_fed = int(self._slots.line(ROW)[slot]), int(self._slots.line(POSITION)[slot])
            prompt = self._prompts.tokens_BP[row, : int(self._head_B[row]) + 1].tolist()
            said = self._outputs.token_BT[row].tolist()
            turns.store.put(tuple((prompt + said)[:num_fed]), self._cache.read(slot, num_fed, turns.version))

    def _admit(self) -> None:
        row_k, first_slot = self._waiting.take(self._slots.num_free), self._slots.num_running
        if not len(row_k):
            return
        routes_BLJk = self._outputs.routes_BLJk
        if self._shared is not None:
            prompt_k = self._prompt_of_B[row_k]
            self._cache.fork(self._shared, prompt_k, first_slot, self._head_len)
            if routes_BLJk is not None and self._shared_routes is not None:
                routes_BLJk[row_k] = self._shared_routes[prompt_k]
        elif self._head_len:
            routes_kLJk = None if routes_BLJk is None else routes_BLJk[row_k]
            tokens_kH, head_k = self._prompts.tokens_BP[row_k, : self._head_len], self._head_B[row_k]
            self._decoder.prefill(tokens_kH, head_k, self._cache, first_slot=first_slot, routes_kLJk=routes_kLJk)
            if routes_BLJk is not None and routes_kLJk is not None:
                routes_BLJk[row_k] = routes_kLJk
        if not self._head_len:
            self._decoder.begin_empty(first_slot, len(row_k))
        self._decoder.admit(self._entry_6B[:, row_k])

    def _decode_wave(self) -> None:
        """Decode until every row of the wave is done; done rows stay."""
        is_alive_n = torch.ones(self._slots.num_running, dtype=torch.bool, device=self._device)
        while is_alive_n.any():
            done_n = self._decoder.step()
            self._keep(done_n & is_alive_n)
            is_alive_n &= ~done_n
        self._slots.clear()

    def _decode_continuous(self) -> None:
        """Decode until all rows are done or enough slots are free for waiting ones."""
        admit_at = max(1, int(self._slots.capacity * ADMIT_FRAC))
        while self._slots.num_running and not (self._waiting and self._slots.num_free >= admit_at):
            done_n = self._decoder.step()
            if done_n.any():
                self._keep(done_n)
                self._waiting.note(self._slots.line(ROW)[done_n], self._slots.line(GENERATED)[done_n])
                self._decoder.retire(done_n)


def _entry_table(prompts: PromptBatch, limit_B: Tensor, key_B: Tensor) -> Tensor:
    """Return the slot table lines of every row as it enters: its last prompt token is fed first."""
    last_B = prompts.lengths_B - 1
    token_B = prompts.tokens_BP.gather(1, last_B[:, None])[:, 0]
    rows_B = torch.arange(prompts.num_rows, device=prompts.tokens_BP.device)
    return torch.stack((rows_B, last_B, torch.zeros_like(rows_B), limit_B, key_B, token_B))
