"""Decoding without batches: groups are begun at any time, rows take free slots, complete groups leave.

::

    begin --> waiting rows --admit--> prefill --> slots --decode--> lines of the table --last row--> a group leaves
                  ^                                 |
                  '-- refill: as rows finish  <-----'        take_out: unfinished groups with all they have said

New weights may be loaded between two calls of `run`: rows go on over the cache of the older ones, and every token is
marked with the version that sampled it. A group that is taken out and begun again is prefilled with what it has said,
under the weights of then, and goes on with the same noise: its position is part of the key.

Shape letters: g rows of a group, k rows that end at once, n running rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from steptune.engine.choose import Choose
from steptune.engine.decode_weights import Head
from steptune.engine.decoder import Decoder
from steptune.engine.events import Recorder
from steptune.engine.kv_cache import KVCache
from steptune.engine.model import Transformer
from steptune.engine.rollout_checks import check_context, check_logprobs, check_prompts
from steptune.engine.slots import GENERATED, ROW
from steptune.engine.spent import Spent
from steptune.engine.stream.admission import Admission
from steptune.engine.stream.groups import Done, Start, rollout_of
from steptune.engine.stream.plan import StreamPlan
from steptune.engine.stream.table import RowTable
from steptune.engine.types import RolloutTrace


@dataclass(kw_only=True, slots=True)
class _Making:
    start: Start
    row_g: Tensor
    num_left: int


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
        self.plan, self._version, self._spent = plan, version, Spent(recorder)
        device = model.embed.weight.device
        self.table = RowTable(
            model.spec, plan.num_rows, plan.max_completion_len, plan.pad_id, device, with_raw=plan.with_raw
        )
        self.decoder = Decoder(
            model,
            head,
            KVCache(model.spec, plan.num_slots, 0, model.embed.weight.dtype, device),
            self.table.outputs,
            num_slots=plan.num_slots,
            choose=choose,
            eos_ids=plan.eos_ids,
            moe_dispatch=plan.moe_dispatch,
        )
        self._admission = Admission(plan, self.decoder, self.table)
        self._making: dict[int, _Making] = {}
        self._making_of: dict[int, _Making] = {}
        """By line of the table."""

    @property
    def is_idle(self) -> bool:
        """Whether no row runs or waits."""
        return not self._making

    @property
    def num_open(self) -> int:
        """Rows that could be admitted beyond those waiting."""
        return self.decoder.slots.num_free - len(self._admission.waiting)

    @property
    def has_room(self) -> bool:
        """Whether a whole group could be admitted beyond the rows waiting."""
        return self.num_open >= self.plan.whole_group

    @torch.inference_mode()  # as in `run`, which calls it too: tensors made there cannot be written to outside
    def begin(self, start: Start) -> None:
        """Let a group's rows wait for slots.

        Raises:
            JobError: prompts without tokens, tokens the model does not have, or a length beyond the context.
        """
        prompts = start.prompts
        check_prompts(prompts, self.plan.num_tokens)
        check_context(prompts, start.limit_g, self.plan.context_len)
        self._admission.make_room(int(prompts.lengths_B.max()))
        row_g = self.table.take(start.said, prompts.num_rows)
        num_done = 0 if start.said is None else int(start.said.is_done_g.sum())
        made = _Making(start=start, row_g=row_g, num_left=prompts.num_rows - num_done)
        assert made.num_left, "a complete group was begun again"
        rows = row_g.tolist()
        self._making[start.number] = made
        self._making_of.update(dict.fromkeys(rows, made))
        self._admission.wait(start, rows)

    def run(self, refill: Callable[[], None], is_called: Callable[[], bool]) -> list[Done]:
        """Decode until a group is complete, or ``is_called`` (asked between two iterations), or nothing is left.

        ``refill`` is called where slots are free, and may `begin` groups.

        Raises:
            HealthError: the weights give NaN or infinite log-probs.
        """
        is_dry, admission = False, self._admission
        with torch.inference_mode():
            while True:
                if self.num_open >= self.plan.refill_at and not is_dry:
                    refill()
                    is_dry = not admission.waiting
                if self.is_idle:
                    return []
                if admission.waiting and self.decoder.slots.num_free >= admission.worth_it_at:
                    with self._spent.booked("prefill"):
                        admission.admit()
                with self._spent.booked("decode"):
                    done, called = self._decode(is_called, is_dry=is_dry)
                if done or called:
                    return done

    def take_out(self) -> list[Start]:
        """Remove every unfinished group, in order of its number, with what its rows have said."""
        slots = self.decoder.slots
        self.table.length_R[slots.line(ROW)] = slots.line(GENERATED)
        slots.clear()
        self._admission.waiting.clear()
        self._making_of.clear()
        made, self._making = self._making, {}
        return [replace(one.start, said=self.table.leave(one.row_g)) for _, one in sorted(made.items())]

    def take_trace(self) -> RolloutTrace:
        """Return what was spent since the last call."""
        running, self.decoder.running = self.decoder.running, []
        prefill_s, decode_s = self._spent.take()
        trace = RolloutTrace(
            prefill_tokens=self.decoder.prefill_tokens,
            resumed_tokens=self._admission.resumed_tokens,
            decode_iterations=len(running),
            running_I=tuple(running),
            prefill_s=prefill_s,
            decode_s=decode_s,
        )
        self.decoder.prefill_tokens = self._admission.resumed_tokens = 0
        return trace

    def _decode(self, is_called: Callable[[], bool], *, is_dry: bool) -> tuple[list[Done], bool]:
        """Decode until a group is complete, the caller is called away, or slots are free and more may come."""
        slots, table, version = self.decoder.slots, self.table, self._version()
        admission = self._admission
        while True:
            table.version_RT[slots.line(ROW), slots.line(GENERATED)] = version
            done_n = self.decoder.step()
            done = self._retire(done_n) if done_n.any() else []
            called = is_called()
            has_more = bool(admission.waiting) or not is_dry
            if done or called or not slots.num_running or (has_more and slots.num_free >= admission.worth_it_at):
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
