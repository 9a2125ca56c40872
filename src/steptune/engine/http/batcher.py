"""Many requests, one engine: whoever waits when the engine is free is decoded together.

::

    handler threads --submit--> queue --one thread: everything queued, by temperature--> engine.generate
          ^                                                                                   |
          +---------------------------- futures: completions or the error -------------------+

Finished rows leave the decode batch at once, and a request's seed and limit are its rows' own, so what it gets depends
on nobody beside it but through rounding. Surprise: a request that arrives while a batch decodes waits for its end.
"""

import queue
import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import final

import torch

from steptune.core.errors import StepTuneError
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch, RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request: all its prompts have the same settings."""

    prompts: tuple[tuple[int, ...], ...]
    num_samples: int
    max_tokens: int
    temperature: float
    """0 takes the likeliest token."""
    seed: int

    @property
    def num_rows(self) -> int:
        """Completions it asks for."""
        return len(self.prompts) * self.num_samples


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """One completion, as it was sampled."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Under the sampling distribution."""
    raw_logprobs: tuple[float, ...]
    """At temperature 1."""
    versions: tuple[int, ...]
    """Weight version of every token."""
    is_finished: bool
    """Ended with the end-of-sequence token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request in the queue."""

    ask: Ask
    answer: Future[list[Completion]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Errand:
    """Work to be done while nothing is being decoded."""

    work: Callable[[], None]
    done: Future[None]


@final
class Batcher:
    """Owns the engine: nobody else may touch it between `start` and `close`."""

    def __init__(self, engine: RolloutEngine, pad_id: int) -> None:
        self._engine, self._pad_id = engine, pad_id
        self._queue: queue.SimpleQueue[Asked | Errand | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="completions", daemon=True)
        self._lock, self._is_closed = threading.Lock(), False
        self.batch_rows: list[int] = []
        """Rows of every batch decoded so far."""

    @property
    def version(self) -> int:
        """Version of the weights that the next batch will see."""
        return self._engine.version

    def start(self) -> None:
        """Begin to decode."""
        self._thread.start()

    def submit(self, ask: Ask) -> Future[list[Completion]]:
        """Return the future of a request's completions, sample by sample within each prompt.

        Raises:
            RuntimeError: the batcher is closed.
        """
        asked = Asked(ask=ask, answer=Future())
        self._put(asked)
        return asked.answer

    def between_batches(self, work: Callable[[], None]) -> Future[None]:
        """Run ``work`` (say, a load of new weights) while nothing is being decoded."""
        errand = Errand(work=work, done=Future())
        self._put(errand)
        return errand.done

    def close(self) -> None:
        """Finish what is queued and end the thread; later requests are refused."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _put(self, job: Asked | Errand) -> None:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the server is shutting down")
            self._queue.put(job)

    def _serve(self) -> None:
        is_open = True
        while is_open:
            jobs, is_open = self._waiting()
            asked: list[Asked] = []
            for job in jobs:
                if isinstance(job, Asked):
                    asked.append(job)
                    continue
                self._answer(asked)
                asked = []
                _run(job)
            self._answer(asked)

    def _waiting(self) -> tuple[list[Asked | Errand], bool]:
        """Return all that is queued, waiting for the first, and whether more may come."""
        jobs: list[Asked | Errand] = []
        job = self._queue.get()
        while job is not None:
            jobs.append(job)
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return jobs, True
        return jobs, False

    def _answer(self, asked: Sequence[Asked]) -> None:
        for temperature in dict.fromkeys(one.ask.temperature for one in asked):
            self._answer_together([one for one in asked if one.ask.temperature == temperature], temperature)

    def _answer_together(self, asked: Sequence[Asked], temperature: float) -> None:
        """Decode requests as one batch. A mistake is its own request's: the others are decoded without it."""
        try:
            done = self._decode([one.ask for one in asked], temperature)
        except StepTuneError as error:
            if len(asked) == 1:
                asked[0].answer.set_exception(error)
            else:
                for one in asked:
                    self._answer_together([one], temperature)
        except Exception as error:  # noqa: BLE001  the edge of a thread: whoever waits gets to know
            for one in asked:
                one.answer.set_exception(error)
        else:
            for one, completions in zip(asked, done, strict=True):
                one.answer.set_result(completions)

    def _decode(self, asks: Sequence[Ask], temperature: float) -> list[list[Completion]]:
        prompts, seed_B, limit_B = self._rows(asks)
        batch, _ = self._engine.generate(
            prompts,
            max_completion_len=int(limit_B.max()),
            temperature=temperature or 1.0,
            greedy=temperature == 0,
            seed=seed_B,
            limits_B=limit_B,
        )
        self.batch_rows.append(prompts.num_rows)
        rows = [_completion(batch, row) for row in range(prompts.num_rows)]
        starts = [sum(ask.num_rows for ask in asks[:i]) for i in range(len(asks))]
        return [rows[start : start + ask.num_rows] for start, ask in zip(starts, asks, strict=True)]

    def _rows(self, asks: Sequence[Ask]) -> tuple[PromptBatch, torch.Tensor, torch.Tensor]:
        """Return the rows of all requests, their seeds and their limits; a prompt's samples are a group."""
        groups = [(prompt, ask) for ask in asks for prompt in ask.prompts]
        width = max(len(prompt) for prompt, _ in groups)
        repeats_G = torch.tensor([ask.num_samples for _, ask in groups])
        token_GP = torch.tensor([[*prompt, *[self._pad_id] * (width - len(prompt))] for prompt, _ in groups])

        def rows(values: list[int]) -> torch.Tensor:
            return torch.tensor(values).repeat_interleave(repeats_G)

        prompts = PromptBatch(
            tokens_BP=token_GP.repeat_interleave(repeats_G, dim=0),
            lengths_B=rows([len(prompt) for prompt, _ in groups]),
            group_B=rows(list(range(len(groups)))),
            # the noise is keyed by what the prompt says: the same request finds the same noise in any batch
            problem_B=rows([zlib.crc32(repr(prompt).encode()) for prompt, _ in groups]),
            sample_B=torch.cat([torch.arange(ask.num_samples) for _, ask in groups]),
        )
        return prompts, rows([ask.seed for _, ask in groups]), rows([ask.max_tokens for _, ask in groups])


def _completion(batch: RolloutBatch, row: int) -> Completion:
    length = int(batch.lengths_B[row])
    raw_BT = batch.logprobs_BT if batch.raw_logprobs_BT is None else batch.raw_logprobs_BT
    return Completion(
        token_ids=tuple(batch.completion_BT[row, :length].tolist()),
        logprobs=tuple(batch.logprobs_BT[row, :length].tolist()),
        raw_logprobs=tuple(raw_BT[row, :length].tolist()),
        versions=tuple(batch.versions_BT[row, :length].tolist()),
        is_finished=bool(batch.finished_B[row]),
    )


def _run(errand: Errand) -> None:
    try:
        errand.work()
    except Exception as error:  # noqa: BLE001  the edge of a thread
        errand.done.set_exception(error)
    else:
        errand.done.set_result(None)
