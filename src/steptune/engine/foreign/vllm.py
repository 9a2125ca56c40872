"""vLLM as the rollout: the same calls as `RolloutEngine`, answered by a server in an environment of its own.

The first `load` writes the model and starts the server; later ones reload the weights in place (0.2 to 0.4 s for 135 M
parameters). Which log-prob vLLM returns is fixed at its start: the model's own (``raw_logprobs``) where temperature is
1, that of the sampling distribution (``processed_logprobs``) elsewhere; the own ones are then scored in a second pass.
Surprise: a processed log-prob leaves out a token that may not be drawn, so forced lengths need temperature 1.

Shape letters: B rows, T completion token.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, final

from torch import Tensor

from steptune.core.errors import JobError, TrialError, explain
from steptune.core.model import ModelSpec
from steptune.engine.events import Recorder
from steptune.engine.foreign.asks import Sampling, padded, rollout_batch, row_asks
from steptune.engine.foreign.handover import Handover, write_version
from steptune.engine.foreign.messages import Choice
from steptune.engine.foreign.metrics import EngineMetrics, parse_metrics
from steptune.engine.foreign.server import ServerProcess, free_port
from steptune.engine.foreign.settings import VllmSettings, check_head, command, environment
from steptune.engine.foreign.wire import Wire
from steptune.engine.rollout import DTYPES
from steptune.engine.rollout_checks import check_context, check_ends, check_prompts, limits
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace

MAX_REQUESTS = 512
"""Requests on their way at once, each with a waiting thread here; more wait here instead of in the server."""

HOME = "home"
"""Folder that the server takes for its user's."""

Answer = TypeVar("Answer")

PAUSED_KEEPING = "/pause?mode=keep"
"""Stops the scheduler between two iterations; what is in flight would go on afterwards."""


@final
class VllmEngine:
    """Generates completions over HTTP. `close` it."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: VllmSettings,
        *,
        vocab_size: int,
        pad_id: int,
        eos_id: int,
        temperature: float,
        folder: Path,
        other_eos_ids: tuple[int, ...] = (),
        start: Callable[[Path], ServerProcess] | None = None,
    ) -> None:
        """Check; nothing is started yet. Weights, log and the server's home go into ``folder``.

        ``start`` (tests) takes the model's folder and returns the server; None starts vLLM.

        Raises:
            JobError: heads that vLLM cannot do, or special tokens that the model does not have.
        """
        check_head(spec)
        check_ends(pad_id, (eos_id, *other_eos_ids), vocab_size)
        self._spec, self.settings, self._folder = spec, settings, folder
        self._num_tokens, self._pad_id = spec.embedding_rows(vocab_size), pad_id
        self._eos_ids = (eos_id, *other_eos_ids)
        self._temperature = temperature
        self._start = start or self._start_vllm
        self._server: ServerProcess | None = None
        self._wire: Wire | None = None
        self.version = 0
        self.start_s: float | None = None
        """Seconds from the start to the first healthy answer; None before the first `load`."""
        self.handover: Handover | None = None
        """What was loaded last."""

    @property
    def wire(self) -> Wire:
        """The line to the server.

        Raises:
            TrialError: no weights were loaded yet, or it is closed.
        """
        if self._wire is None:
            hint = "call `load` first; it starts the server"
            raise TrialError(
                explain("the foreign engine has no server", got="none", allowed="a running one", hint=hint)
            )
        return self._wire

    @property
    def server(self) -> ServerProcess | None:
        """The server's process; None before the first `load` and after `close`."""
        return self._server

    def load(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over new weights: start the server with them, or reload them in place and empty the prefix cache.

        Raises:
            ModelError: no architecture of transformers has this shape.
            TrialError: the server does not start, died, or could not load them (it is stopped then).
        """
        ids = {"eos_token_id": self._eos_ids[0], "pad_token_id": self._pad_id}
        ids["max_position_embeddings"] = self.settings.max_model_len
        dtype = DTYPES[self.settings.dtype]
        written = write_version(self._folder / "weights", self._spec, state, version, dtype, ids)
        if self._wire is None:
            self._open(written.folder)
        else:
            self._reload(self._wire, written.folder)
        for other in (self._folder / "weights").iterdir():
            if other != written.folder:
                shutil.rmtree(other)
        self.version, self.handover = version, written.record

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
        """Sample one completion per row; arguments as `RolloutEngine.generate`. ``recorder`` is given nothing.

        Raises:
            JobError: prompts or lengths that cannot be, another temperature than the server's, or forced lengths
                at another temperature than 1.
            TrialError: the server died, or its answer makes no sense.
        """
        check_prompts(prompts, self._num_tokens)
        limit_B = limits(prompts, max_completion_len, limits_B if forced_lengths_B is None else forced_lengths_B)
        check_context(prompts, limit_B, self.settings.max_model_len)
        self._check_sampling(temperature, is_forced=forced_lengths_B is not None)
        how = Sampling(
            temperature=0.0 if greedy else temperature,
            is_forced=forced_lengths_B is not None,
            eos_ids=self._eos_ids,
            pad_id=self._pad_id,
        )
        before = self.metrics()
        asks = row_asks(prompts, limit_B, seed, how)
        answers = _all([lambda ask=asked.ask: self.wire.complete(ask) for asked in asks])
        rows: list[Choice] = [choice for choices in answers for choice in choices]
        batch, trace = rollout_batch(prompts, rows, self.version, how), _trace(before, self.metrics())
        if temperature != 1:
            raw_BT = self.score(prompts, batch.completion_BT, batch.lengths_B, temperature=1.0)
            batch = replace(batch, raw_logprobs_BT=raw_BT)
        return batch, trace

    def score(self, prompts: PromptBatch, completion_BT: Tensor, lengths_B: Tensor, *, temperature: float) -> Tensor:
        """Return log-probs [B, T] of given completions, 0 in the padding, by one prefill per row.

        Raises:
            JobError: another temperature than 1: vLLM scores prompts with the model's own distribution only.
            TrialError: the server died, or its answer makes no sense.
        """
        if temperature != 1:
            hint = "divide the logits in the trainer instead"
            raise JobError(explain("vLLM scores at temperature 1", got=temperature, allowed="1", hint=hint))
        check_prompts(prompts, self._num_tokens)
        rows = zip(prompts.tokens_BP.tolist(), prompts.lengths_B.tolist(), strict=True)
        heads = [tokens[:length] for tokens, length in rows]
        tails = [row[:n] for row, n in zip(completion_BT.tolist(), lengths_B.tolist(), strict=True)]
        joined = [head + tail for head, tail in zip(heads, tails, strict=True)]
        scored = _all([lambda tokens=tokens: self.wire.score(tokens) for tokens in joined])
        own = [row[len(head) - 1 :] for row, head in zip(scored, heads, strict=True)]
        return padded(own, completion_BT.shape[1])

    def metrics(self) -> EngineMetrics:
        """Return the server's counters and gauges.

        Raises:
            TrialError: the server died.
        """
        return parse_metrics(self.wire.metrics())

    def close(self) -> None:
        """Stop the server and all it started; remove weights and home. The log stays."""
        if self._server is not None:
            self._server.close()
        self._server = self._wire = None
        for name in ("weights", HOME):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _check_sampling(self, temperature: float, *, is_forced: bool) -> None:
        wrong = None
        if temperature != self._temperature:
            wrong = f"temperature {temperature}", f"{self._temperature}, which the server was started for"
        elif is_forced and temperature != 1:
            wrong = f"forced lengths at temperature {temperature}", "temperature 1 with them"
        if wrong is not None:
            hint = "use rollout_engine `embedded` for this job"
            raise JobError(explain("the vLLM engine cannot do this", got=wrong[0], allowed=wrong[1], hint=hint))

    def _open(self, model: Path) -> None:
        start_s = time.monotonic()
        self._server = self._start(model)
        wire = Wire(self._server, self.settings.stall_timeout_s)
        self._server.wait_until(wire.is_healthy, self.settings.start_timeout_s)
        self._wire, self.start_s = wire, time.monotonic() - start_s

    def _start_vllm(self, model: Path) -> ServerProcess:
        folder, port = self._folder.absolute(), free_port()
        mode = "raw_logprobs" if self._temperature == 1 else "processed_logprobs"
        home = folder / HOME
        home.mkdir(parents=True, exist_ok=True)
        words = command(self.settings, model.absolute(), port, mode)
        return ServerProcess(words, environment(self.settings, home), folder, port)

    def _reload(self, wire: Wire, model: Path) -> None:
        call = {"method": "reload_weights", "kwargs": {"weights_path": str(model.absolute())}}
        try:
            wire.post(PAUSED_KEEPING)
            wire.post("/collective_rpc", call)
            wire.post("/reset_prefix_cache")
            wire.post("/resume")
        except TrialError:
            self.close()  # it has lost the old weights too: the next request would kill it
            raise


def _all(calls: list[Callable[[], Answer]]) -> list[Answer]:
    """Return the answers of calls made at the same time, in their order."""
    with ThreadPoolExecutor(min(len(calls), MAX_REQUESTS), "vllm") as pool:
        return list(pool.map(lambda call: call(), calls))


def _trace(before: EngineMetrics, after: EngineMetrics) -> RolloutTrace:
    """Return what the server's counters say.

    Not when prefill ended, how many rows ran in between, or how much was computed again for preempted rows.
    """
    cached = after.cached_prompt_tokens - before.cached_prompt_tokens
    return RolloutTrace(
        prefill_tokens=after.prompt_tokens - before.prompt_tokens - cached,
        decode_iterations=after.num_iterations - before.num_iterations,
        reused_tokens=cached,
        running_I=(),
        prefill_s=None,
        decode_s=None,
    )
