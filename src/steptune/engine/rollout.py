"""The rollout side: its own weights in its own number format, and the versioned way in for new ones.

Surprise: with forced lengths the end-of-sequence token is left out of the *draw* until a row's last position,
but the recorded log-prob is still the policy's own, so that the gap to the trainer stays a gap of kernels.

Prompts come and rollouts go on the host; between, everything is on the model's device (not run on CUDA yet).

Shape letters: B rows, P prompt token, T completion token, n running rows, V vocab.
"""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from steptune.core.errors import HealthError
from steptune.core.model import ExpertFields, ModelSpec
from steptune.engine.attention import CPU
from steptune.engine.choose import Choose, Chosen, replayer, sampler
from steptune.engine.decode_weights import Head, Packing, order_pays, pack_weights, packed_hashes
from steptune.engine.ends import is_end
from steptune.engine.events import Recorder
from steptune.engine.generation import Generation, Plan, Turns
from steptune.engine.int8 import check_int8
from steptune.engine.knobs import EngineKnobs
from steptune.engine.kv_cache import KVCache
from steptune.engine.model import Transformer
from steptune.engine.outputs import Outputs, completed
from steptune.engine.prefix_store import PrefixStore
from steptune.engine.rollout_checks import (
    check_context,
    check_ends,
    check_handover,
    check_logprobs,
    check_prompts,
    limits,
)
from steptune.engine.routes import no_routes
from steptune.engine.sampling import noise_keys
from steptune.engine.slots import Slots
from steptune.engine.stream.plan import StreamPlan
from steptune.engine.stream.stream import Stream
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace
from steptune.engine.waiting import LengthHistory

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.float32}
"""What tensors other than packed matrices have under each `rollout_dtype`, the KV cache included."""


@final
class RolloutEngine:
    """Generates completions. It never sees the trainer; weights come in through `load`."""

    def __init__(
        self,
        spec: ModelSpec,
        knobs: EngineKnobs,
        *,
        vocab_size: int,
        pad_id: int,
        eos_id: int,
        other_eos_ids: tuple[int, ...] = (),
        shared: Transformer | None = None,
        device: torch.device = CPU,
        context_len: int | None = None,
    ) -> None:
        """Make an engine with its own model on ``device``, or one that reads ``shared`` where it lies (`alias`).

        ``other_eos_ids`` end a completion as ``eos_id`` does. ``context_len``: tokens of prompt and completion together
        that the model can take; None checks nothing.

        Raises:
            JobError: sharing is asked for without a module, or in another number format than fp32; special tokens
                that the model does not have; int8 on a machine without it.
        """
        check_handover(knobs, shared)
        check_ends(pad_id, (eos_id, *other_eos_ids), vocab_size)
        self._context_len = context_len
        self.knobs = knobs
        self.version = 0
        self._pad_id, self._eos_ids = pad_id, (eos_id, *other_eos_ids)
        self._is_shared = shared is not None
        self.dtype = dtype = DTYPES[knobs.rollout_dtype]
        self._model = shared if shared is not None else Transformer(spec, vocab_size).to(device, dtype)
        self._num_tokens, self._device = self._model.embed.num_embeddings, self._model.embed.weight.device
        packing = self._packing()
        pack_weights(self._model, packing)
        self._head = Head(self._model, packing)
        self._cache = KVCache(spec, 0, 0, dtype, self._device)
        self._history = LengthHistory()
        self.prefixes = PrefixStore()

    def _packing(self) -> Packing:
        if self.knobs.rollout_dtype == "int8":
            check_int8(self._device)
            return "int8"
        return "ordered" if not self._is_shared and order_pays(self._model) else "none"

    def load(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over new weights: an in-place cast copy, or only the version where the tensors are shared."""
        if not self._is_shared:
            self._model.load_state_dict(state)
            self._head.refresh()
        self.prefixes.clear()
        self.version = version

    def plain_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that lie in memory of this engine's own as they came, by name: none under `alias`."""
        return {} if self._is_shared else dict(self._model.state_dict())

    def held_tensors(self) -> dict[str, Tensor]:
        """Return every tensor that is not packed, by name: the trainer's own under `alias`."""
        return dict(self._model.state_dict())

    def packed_hashes(self) -> dict[str, int]:
        """Return the hash of every tensor that only exists packed, taken when it was."""
        return packed_hashes(self._model)

    def generate(
        self,
        prompts: PromptBatch,
        *,
        max_completion_len: int,
        temperature: float,
        seed: int | Tensor,
        limits_B: Tensor | None = None,
        forced_lengths_B: Tensor | None = None,
        greedy: bool = False,
        recorder: Recorder | None = None,
    ) -> tuple[RolloutBatch, RolloutTrace]:
        """Sample one completion per row.

        ``seed`` is one for all or int64 [B]; with ``limits_B`` rows have limits of their own. With
        ``forced_lengths_B`` row i has exactly that many tokens and counts as finished.

        Raises:
            JobError: empty prompts, tokens that the model does not have, or a length that cannot be.
            HealthError: the weights give NaN or infinite log-probs.
        """
        check_prompts(prompts, self._num_tokens)
        limit_B = limits(prompts, max_completion_len, limits_B if forced_lengths_B is None else forced_lengths_B)
        check_context(prompts, limit_B, self._context_len)
        choose = sampler(temperature, self._eos_ids, is_forced=forced_lengths_B is not None, greedy=greedy)
        key_B = noise_keys(seed, prompts.problem_B, prompts.sample_B)
        if recorder is not None:
            choose = _counted(choose, recorder)
        buffers = self._buffers(prompts, max_completion_len, temperature, with_routes=self.knobs.router_replay)
        outputs, trace = self._run(prompts, limit_B, key_B, choose, buffers, recorder, keeps_turns=True)
        made = self._finish(prompts, outputs, limit_B, is_forced=forced_lengths_B is not None)
        if self.knobs.admit_order == "longest_first":
            self._history.note(prompts.problem_B, made.lengths_B)
        return made, trace

    def stream(
        self,
        *,
        num_slots: int,
        num_rows: int,
        group_size: int,
        max_completion_len: int,
        temperature: float,
        seed: int,
        is_forced: bool,
        recorder: Recorder | None = None,
    ) -> Stream:
        """Return a stream over this engine's weights, with a cache of its own.

        ``num_slots`` rows decode at once unless `rollout_concurrency` says fewer; ``num_rows`` bounds the rows of all
        groups in the making. ``is_forced``: every row has exactly the tokens of its limit.
        """
        choose = sampler(temperature, self._eos_ids, is_forced=is_forced, greedy=False)
        plan = StreamPlan(
            num_slots=min(self.knobs.rollout_concurrency or num_slots, num_slots),
            num_rows=num_rows,
            group_size=group_size,
            max_completion_len=max_completion_len,
            seed=seed,
            is_forced=is_forced,
            share_prefill=self.knobs.share_prefill,
            with_raw=temperature != 1,
            with_routes=self.knobs.router_replay,
            moe_dispatch=self.knobs.moe_dispatch,
            pad_id=self._pad_id,
            eos_ids=self._eos_ids,
            num_tokens=self._num_tokens,
            context_len=self._context_len,
        )
        choose = choose if recorder is None else _counted(choose, recorder)
        return Stream(self._model, self._head, plan, choose, lambda: self.version, recorder)

    def score(self, prompts: PromptBatch, completion_BT: Tensor, lengths_B: Tensor, *, temperature: float) -> Tensor:
        """Return log-probs [B, T] of given completions, 0 in the padding, through the decode path itself.

        At the weights that sampled them this repeats the recorded log-probs, number format and kernels included.

        Raises:
            JobError: empty prompts or completions.
            HealthError: the weights give NaN or infinite log-probs.
        """
        check_prompts(prompts, self._num_tokens)
        limit_B = limits(prompts, completion_BT.shape[1], lengths_B)
        choose, width = replayer(completion_BT.to(self._device), temperature), completion_BT.shape[1]
        buffers = self._buffers(prompts, width, temperature, with_routes=False)
        outputs, _ = self._run(prompts, limit_B, torch.zeros_like(limit_B), choose, buffers, None, keeps_turns=False)
        mask_BT = torch.arange(width, device=lengths_B.device) < lengths_B[:, None]
        logprobs_BT = torch.where(mask_BT, outputs.logprob_BT, 0.0)
        self._check(logprobs_BT, int(lengths_B.sum()))
        return logprobs_BT

    def _buffers(self, prompts: PromptBatch, width: int, temperature: float, *, with_routes: bool) -> Outputs:
        """Return what completions of up to ``width`` tokens are written to, on the model's device."""
        spec, num_rows, routes_BLJk = self._model.spec, prompts.num_rows, None
        if with_routes and isinstance(spec, ExpertFields):
            routes_BLJk = no_routes(spec, num_rows, prompts.tokens_BP.shape[1] + width, self._device)
        with_raw = temperature != 1
        return Outputs.empty(num_rows, width, self._pad_id, self._device, routes_BLJk, with_raw=with_raw)

    def _run(
        self,
        prompts: PromptBatch,
        limit_B: Tensor,
        key_B: Tensor,
        choose: Choose,
        outputs: Outputs,
        recorder: Recorder | None,
        *,
        keeps_turns: bool,
    ) -> tuple[Outputs, RolloutTrace]:
        """Generate on the model's device; return what was written on the prompts' device."""
        expected_B = None
        if self.knobs.admit_order == "longest_first":
            expected_B = self._history.expected(prompts.problem_B).to(self._device)
        turns = None
        if self.knobs.reuse_prefixes and keeps_turns:
            turns = Turns(store=self.prefixes, version=self.version)
        plan = Plan(
            num_slots=min(self.knobs.rollout_concurrency or prompts.num_rows, prompts.num_rows),
            share_prefill=self.knobs.share_prefill,
            continuous=self.knobs.compact_finished,
            eos_ids=self._eos_ids,
            moe_dispatch=self.knobs.moe_dispatch,
            expected_B=expected_B,
            turns=turns,
        )
        max_len = prompts.tokens_BP.shape[1] + outputs.token_BT.shape[1]
        generation = Generation(
            self._model,
            self._head,
            self._cache_for(plan.num_slots, max_len),
            plan,
            prompts.to(self._device),
            limit_B=limit_B.to(self._device),
            key_B=key_B.to(self._device),
            choose=choose,
            outputs=outputs,
            recorder=recorder,
        )
        trace = generation.run()
        return outputs.to(prompts.tokens_BP.device), trace

    def _cache_for(self, num_slots: int, max_len: int) -> KVCache:
        """Return a cache that is large enough, the last one where it will do."""
        old = self._cache
        if old.num_slots < num_slots or old.max_len < max_len:
            num_slots, max_len = max(num_slots, old.num_slots), max(max_len, old.max_len)
            self._cache = KVCache(self._model.spec, num_slots, max_len, old.data.dtype, self._device)
        return self._cache

    def _finish(self, prompts: PromptBatch, outputs: Outputs, limit_B: Tensor, *, is_forced: bool) -> RolloutBatch:
        is_eos_BT = is_end(outputs.token_BT, self._eos_ids)
        end_B = torch.where(is_eos_BT.any(1), is_eos_BT.int().argmax(1) + 1, limit_B)
        made = completed(
            prompts,
            outputs,
            torch.minimum(end_B, limit_B),
            torch.tensor([[self.version]], device=limit_B.device),
            pad_id=self._pad_id,
            eos_ids=self._eos_ids,
            is_forced=is_forced,
        )
        for logprobs_BT in (made.logprobs_BT, made.raw_logprobs_BT):
            if logprobs_BT is not None:
                self._check(logprobs_BT, int(made.lengths_B.sum()))
        return made

    def _check(self, logprobs_BT: Tensor, num_tokens: int) -> None:
        """Refuse NaN and infinity, and forget a cache full of them."""
        try:
            check_logprobs(logprobs_BT, num_tokens=num_tokens)
        except HealthError:
            self._cache = KVCache(self._model.spec, 0, 0, self._cache.data.dtype, self._device)
            raise


def _counted(choose: Choose, recorder: Recorder) -> Choose:
    """Return ``choose`` that books how many rows run, whenever that changes."""
    before = 0

    def choose_and_count(logits_nV: Tensor, slots: Slots) -> Chosen:
        nonlocal before
        if slots.num_running != before:
            before = slots.num_running
            recorder.count("rows_running", before)
        return choose(logits_nV, slots)

    return choose_and_count
