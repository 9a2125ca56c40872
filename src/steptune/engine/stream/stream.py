"""Decoding without batches: groups are begun at any time, rows take free slots, complete groups leave.

::

    begin --> waiting rows --admit--> prefill --> slots --decode--> lines of the table --last row--> a group leaves
                  ^                                 |
                  '-- refill: as rows finish  <-----'        take_out: unfinished groups with all they have said

New weights may be loaded between two calls of `run`: rows go on over the cache of the older ones, and every token is
marked with the version that sampled it. A group that is taken out and begun again is prefilled with what it has said,
under the weights of then, and goes on with the same noise: its position is part of the key.

Shape letters: g rows of a group, k admitted rows, U prompts prefilled, H head of a prompt, n running rows.
"""

import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from steptune.core.phase import Role, SpanKind
from steptune.engine.choose import Choose
from steptune.engine.decode_weights import Head
from steptune.engine.decoder import Decoder
from steptune.engine.events import Recorder
from steptune.engine.generation import ADMIT_FRAC
from steptune.engine.knobs import Dispatch
from steptune.engine.kv_cache import KVCache
from steptune.engine.model import Transformer
from steptune.engine.rollout_checks import check_context, check_logprobs, check_prompts
from steptune.engine.routes import NOT_RECORDED
from steptune.engine.sampling import noise_keys
from steptune.engine.slots import GENERATED, ROW
from steptune.engine.stream.groups import Done, Start, rollout_of
from steptune.engine.stream.table import RowTable
from steptune.engine.types import RolloutTrace

GROW_POSITIONS = 16
"""The cache grows by multiples of this when a longer prompt comes: a few copies in a run instead of one a prompt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPlan:
    """How a stream is run."""

    num_slots: int
    """Rows decoding at once."""
    num_rows: int
    """Rows of all groups that may be in the making at once, finished ones of unfinished groups included."""
    group_size: int
    """Slots are refilled by whole groups: a group in two parts would have its prompt computed twice."""
    max_completion_len: int
    seed: int
    is_forced: bool
    share_prefill: bool
    with_raw: bool
    """Raw log-probs are recorded too (temperature is not 1)."""
    with_routes: bool
    moe_dispatch: Dispatch
    pad_id: int
    eos_ids: tuple[int, ...]
    num_tokens: int
    context_len: int | None


@dataclass(kw_only=True, slots=True)
class _Making:
    start: Start
    row_g: Tensor
    num_left: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Newcomer:
    """A row that waits for a slot. Rows of one ``unit`` have the same head."""

    head_H: Tensor
    line_6: Tensor
    unit: tuple[int, int]
    is_new: bool
    """It has said nothing: the experts of its prompt are not known yet."""


@final
class Stream:
    """Runs groups; weights are its engine's."""

    def __init__(
        self,
        model: Transformer,
        head: Head,
        plan: StreamPlan,
        choose: Choose,
        version: Callable[[], int],
        recorder: Recorder | None,
    ) -> None:
        self.plan, self._version, self._recorder = plan, version, recorder
        self._clock = time.perf_counter if recorder is None else recorder.clock
        self._model, self._device = model, model.embed.weight.device
        self.table = RowTable(
            model.spec, plan.num_rows, plan.max_completion_len, plan.pad_id, self._device, with_raw=plan.with_raw
        )
        cache = KVCache(model.spec, plan.num_slots, 0, model.embed.weight.dtype, self._device)
        self.decoder = Decoder(
            model,
            head,
            cache,
            self.table.outputs,
            num_slots=plan.num_slots,
            choose=choose,
            eos_ids=plan.eos_ids,
            moe_dispatch=plan.moe_dispatch,
        )
        self._waiting: deque[_Newcomer] = deque()
        self._making: dict[int, _Making] = {}
        self._making_of: dict[int, _Making] = {}
        """By line of the table."""
        self._seconds = {"prefill": 0.0, "decode": 0.0}
        self._resumed_tokens = 0

    @property
    def is_idle(self) -> bool:
        """Whether no row runs or waits."""
        return not self._making

    @property
    def num_open(self) -> int:
        """Rows that could be admitted beyond those waiting."""
        return self.decoder.slots.num_free - len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether a whole group could be admitted beyond the rows waiting."""
        return self.num_open >= min(self.plan.group_size, self.plan.num_slots)

    def begin(self, start: Start) -> None:
        """Let a group's rows wait for slots.

        Raises:
            JobError: prompts without tokens, tokens the model does not have, or a length beyond the context.
        """
        plan, prompts = self.plan, start.prompts
        check_prompts(prompts, plan.num_tokens)
        check_context(prompts, start.limit_g, plan.context_len)
        num_rows = prompts.num_rows
        self._make_room(int(prompts.lengths_B.max()) + plan.max_completion_len)
        row_g = self.table.take(start.said, num_rows)
        rows = row_g.tolist()
        is_done_g = [False] * num_rows if start.said is None else start.said.is_done_g.tolist()
        made = _Making(start=start, row_g=row_g, num_left=num_rows - sum(is_done_g))
        assert made.num_left, "a complete group was begun again"
        self._making[start.number] = made
        self._making_of.update(dict.fromkeys(rows, made))
        keys = noise_keys(plan.seed, prompts.problem_B, prompts.sample_B).tolist()
        self._waiting.extend(self._newcomer(start, i, rows[i], keys[i]) for i in range(num_rows) if not is_done_g[i])

    def _newcomer(self, start: Start, i: int, row: int, key: int) -> _Newcomer:
        num_prompt = int(start.prompts.lengths_B[i])
        tokens = start.prompts.tokens_BP[i, :num_prompt]
        num_said = 0 if start.said is None else int(start.said.length_g[i])
        if start.said is not None and num_said:
            tokens = torch.cat((tokens, start.said.completion_gT[i, :num_said]))
            self._resumed_tokens += len(tokens) - 1
        line = [row, len(tokens) - 1, num_said, int(start.limit_g[i]), key, int(tokens[-1])]
        return _Newcomer(
            head_H=tokens[:-1],
            line_6=torch.tensor(line),
            unit=(start.number, row if num_said else -1),
            is_new=num_said == 0,
        )

    def run(self, refill: Callable[[], None], is_called: Callable[[], bool]) -> list[Done]:
        """Decode until a group is complete, or ``is_called`` (asked between two iterations), or nothing is left.

        ``refill`` is called where slots are free, and may `begin` groups.

        Raises:
            HealthError: the weights give NaN or infinite log-probs.
        """
        is_dry = False
        with torch.inference_mode():
            while True:
                if self.num_open >= self._refill_at and not is_dry:
                    refill()
                    is_dry = not self._waiting
                if self.is_idle:
                    return []
                if self._waiting and self.decoder.slots.num_free >= self._worth_admitting:
                    with self._booked("prefill"):
                        self._admit()
                with self._booked("decode"):
                    done, called = self._decode(is_called, is_dry=is_dry)
                if done or called:
                    return done

    def take_out(self) -> list[Start]:
        """Remove every unfinished group, in order of its number, with what its rows have said."""
        slots = self.decoder.slots
        self.table.length_R[slots.line(ROW)] = slots.line(GENERATED)
        slots.clear()
        self._waiting.clear()
        self._making_of.clear()
        made, self._making = self._making, {}
        return [
            Start(
                number=number,
                prompts=one.start.prompts,
                limit_g=one.start.limit_g,
                said=self.table.leave(one.row_g),
            )
            for number, one in sorted(made.items())
        ]

    def take_trace(self) -> RolloutTrace:
        """Return what was spent since the last call."""
        running, self.decoder.running = self.decoder.running, []
        seconds, self._seconds = self._seconds, {"prefill": 0.0, "decode": 0.0}
        trace = RolloutTrace(
            prefill_tokens=self.decoder.prefill_tokens,
            resumed_tokens=self._resumed_tokens,
            decode_iterations=len(running),
            running_I=tuple(running),
            prefill_s=seconds["prefill"],
            decode_s=seconds["decode"],
        )
        self.decoder.prefill_tokens = self._resumed_tokens = 0
        return trace

    @property
    def _admit_at(self) -> int:
        return max(1, int(self.plan.num_slots * ADMIT_FRAC))

    @property
    def _refill_at(self) -> int:
        return max(self._admit_at, min(self.plan.group_size, self.plan.num_slots))

    @property
    def _worth_admitting(self) -> int:
        """Free slots at which waiting rows are admitted: one by one, every finished row would cost a forward."""
        return min(self._admit_at, len(self._waiting)) if self._waiting else self._refill_at

    def _make_room(self, max_len: int) -> None:
        old = self.decoder.cache
        if old.max_len >= max_len:
            return
        max_len = -(-max_len // GROW_POSITIONS) * GROW_POSITIONS
        cache = KVCache(self._model.spec, old.num_slots, max_len, old.data.dtype, self._device)
        cache.data[:, :, :, :, : old.max_len] = old.data
        cache.states = old.states  # of fixed size
        self.decoder.cache = cache
        if self.plan.with_routes:
            self.table.record_routes(max_len)
            self.decoder.outputs = self.table.outputs

    def _admit(self) -> None:
        first_slot, num_rows = self.decoder.slots.num_running, min(len(self._waiting), self.decoder.slots.num_free)
        newcomers = [self._waiting.popleft() for _ in range(num_rows)]
        if not any(len(one.head_H) for one in newcomers):
            self.decoder.begin_empty(first_slot, num_rows)
        elif self.plan.share_prefill:
            self._prefill_shared(newcomers, first_slot)
        else:
            self._prefill(newcomers, self.decoder.cache, first_slot)
        self.decoder.admit(torch.stack([one.line_6 for one in newcomers], dim=1).to(self._device))

    def _prefill_shared(self, newcomers: list[_Newcomer], first_slot: int) -> None:
        """Compute every distinct head once and fork it."""
        units = {one.unit: one for one in newcomers}
        order = {unit: u for u, unit in enumerate(units)}
        max_len = max(len(one.head_H) for one in units.values())
        cache = self.decoder.cache
        shared = KVCache(self._model.spec, len(units), max_len, cache.data.dtype, self._device)
        routes_ULJk = self._prefill(list(units.values()), shared, 0)
        unit_k = torch.tensor([order[one.unit] for one in newcomers], device=self._device)
        cache.fork(shared, unit_k, first_slot, max_len)
        self._note_routes(newcomers, None if routes_ULJk is None else routes_ULJk[unit_k])

    def _prefill(self, newcomers: list[_Newcomer], cache: KVCache, first_slot: int) -> Tensor | None:
        """Compute heads into ``cache``; return their experts, line by line, if they are recorded."""
        heads = [one.head_H for one in newcomers]
        head_k = torch.tensor([len(head) for head in heads])
        tokens_kH = torch.nn.utils.rnn.pad_sequence(heads, batch_first=True, padding_value=self.plan.pad_id)
        table = self.table.outputs.routes_BLJk
        routes_kLJk = None if table is None else torch.full_like(table[: len(heads)], NOT_RECORDED)
        self.decoder.prefill(
            tokens_kH.to(self._device),
            head_k.to(self._device),
            cache,
            first_slot=first_slot,
            routes_kLJk=routes_kLJk,
        )
        if cache is self.decoder.cache:
            self._note_routes(newcomers, routes_kLJk)
        return routes_kLJk

    def _note_routes(self, newcomers: list[_Newcomer], routes_kLJk: Tensor | None) -> None:
        """Book the experts of new prompts; a row that goes on keeps those that sampled it."""
        table = self.table.outputs.routes_BLJk
        if table is None or routes_kLJk is None:
            return
        for i, one in enumerate(newcomers):
            if one.is_new:
                table[int(one.line_6[ROW])] = routes_kLJk[i]

    def _decode(self, is_called: Callable[[], bool], *, is_dry: bool) -> tuple[list[Done], bool]:
        """Decode until a group is complete, the caller is called away, or slots are free and more may come."""
        slots, table, version = self.decoder.slots, self.table, self._version()
        while True:
            table.version_RT[slots.line(ROW), slots.line(GENERATED)] = version
            done_n = self.decoder.step()
            done = self._retire(done_n) if done_n.any() else []
            called = is_called()
            has_more = bool(self._waiting) or not is_dry
            if done or called or not slots.num_running or (has_more and slots.num_free >= self._worth_admitting):
                return done, called

    def _retire(self, done_n: Tensor) -> list[Done]:
        slots, table = self.decoder.slots, self.table
        row_k = slots.line(ROW)[done_n]
        table.length_R[row_k], table.is_done_R[row_k] = slots.line(GENERATED)[done_n], True
        self.decoder.retire(done_n)
        complete: list[Done] = []
        for row in row_k.tolist():
            made = self._making_of[row]
            made.num_left -= 1
            if not made.num_left:
                complete.append(self._leave(made))
        return complete

    def _leave(self, made: _Making) -> Done:
        del self._making[made.start.number]
        for row in made.row_g.tolist():
            del self._making_of[row]
        plan, said = self.plan, self.table.leave(made.row_g)
        batch = rollout_of(made.start, said, pad_id=plan.pad_id, eos_ids=plan.eos_ids, is_forced=plan.is_forced)
        check_logprobs(batch.logprobs_BT, num_tokens=int(batch.lengths_B.sum()))
        return Done(number=made.start.number, batch=batch)

    @contextmanager
    def _booked(self, name: str) -> Generator[None]:
        start_s = self._clock()
        yield
        end_s = self._clock()
        self._seconds[name] += end_s - start_s
        if self._recorder is not None:
            self._recorder.add(Role.ROLLOUT, f"rollout/{name}", SpanKind.BUSY, start_s, end_s)
