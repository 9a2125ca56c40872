"""The endpoint: ``POST /v1/completions``, ``GET /v1/models``, ``GET /health``, on the loopback address only.

A handler thread per connection reads, asks the `Batcher` and writes. New weights come in through `load`, never over
HTTP. Errors are ``{"error": {"message", "type"}}`` with 400 for what the caller can fix.
"""

import json
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, final

from torch import Tensor

from steptune.core.errors import HealthError, StepTuneError, explain
from steptune.engine.http.batcher import Ask, Batcher, Completion
from steptune.engine.http.wire import CompletionRequest, Tokenizer, parse, prompts_of
from steptune.engine.rollout import RolloutEngine

LOOPBACK = "127.0.0.1"

MAX_BODY_BYTES = 16 * 2**20
"""Largest request read: about two million token ids."""

POLL_S = 0.05
"""Seconds until the listening thread notices that it should end."""

READ_TIMEOUT_S = 30.0
"""Seconds a connection may stay silent in the middle of a request."""


@final
class CompletionServer:
    """Serves one engine; use as a context manager, or call `close`."""

    def __init__(
        self, engine: RolloutEngine, *, model_name: str, pad_id: int, tokenizer: Tokenizer | None = None, port: int = 0
    ) -> None:
        """Bind to ``port`` of the loopback address, 0 for a free one, and serve."""
        self.model_name, self.tokenizer = model_name, tokenizer
        self._engine, self.batcher = engine, Batcher(engine, pad_id)
        self._server = _Server(port, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name="http", daemon=True)
        self.batcher.start()
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def load(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over new weights between two batches; returns when they are in."""
        self.batcher.between_batches(lambda: self._engine.load(state, version)).result()

    def close(self) -> None:
        """Stop listening, answer what has been asked, end every thread."""
        self._server.shutdown()
        self._thread.join()
        self.batcher.close()
        self._server.server_close()

    def __enter__(self) -> "CompletionServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(self, request: CompletionRequest) -> dict[str, Any]:
        """Return the answer to a request, once it is decoded.

        Raises:
            StepTuneError: the request asks for what cannot be.
        """
        prompts = prompts_of(request, self.tokenizer)
        ask = Ask(
            prompts=tuple(map(tuple, prompts)),
            num_samples=request.n,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            seed=request.seed,
        )
        done = self.batcher.submit(ask).result()
        with_logprobs = request.logprobs is not None
        num_prompt, num_new = sum(map(len, prompts)), sum(len(c.token_ids) for c in done)
        return {
            "id": f"cmpl-{time.time_ns():x}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.model_name,
            "choices": [
                self._choice(i, prompts[i // request.n], completion, with_logprobs=with_logprobs)
                for i, completion in enumerate(done)
            ],
            "usage": {
                "prompt_tokens": num_prompt,
                "completion_tokens": num_new,
                "total_tokens": num_prompt + num_new,
            },
        }

    def _choice(self, index: int, prompt: list[int], completion: Completion, *, with_logprobs: bool) -> dict[str, Any]:
        ids = list(completion.token_ids)
        shown = [] if self.tokenizer is None else [self.tokenizer.decode([token]) for token in ids]
        logprobs = {
            "tokens": shown,
            "token_logprobs": list(completion.logprobs),
            "raw_token_logprobs": list(completion.raw_logprobs),
        }
        return {
            "index": index,
            "text": "" if self.tokenizer is None else self.tokenizer.decode(ids),
            "prompt_token_ids": prompt,
            "token_ids": ids,
            "weight_versions": list(completion.versions),
            "logprobs": logprobs if with_logprobs else None,
            "finish_reason": "stop" if completion.is_finished else "length",
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    """`server_close` waits for the handlers: nobody's answer is cut off."""

    def __init__(self, port: int, owner: CompletionServer) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.owner = owner


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]  always made by `_Server`
    timeout = READ_TIMEOUT_S

    def do_GET(self) -> None:
        owner = self.server.owner
        if self.path == "/health":
            self._send(HTTPStatus.OK, {"status": "ok", "weight_version": owner.batcher.version})
        elif self.path == "/v1/models":
            model = {"id": owner.model_name, "object": "model", "owned_by": "steptune"}
            self._send(HTTPStatus.OK, {"object": "list", "data": [model]})
        else:
            self._unknown_path()

    def do_POST(self) -> None:
        if self.path != "/v1/completions":
            self._unknown_path()
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._refuse(
                HTTPStatus.BAD_REQUEST,
                explain(
                    "a request needs its size",
                    got=f"Content-Length {length or 'missing'}",
                    allowed=f"0 to {MAX_BODY_BYTES} bytes",
                    hint="send fewer prompts at once",
                ),
            )
            return
        try:
            self._send(HTTPStatus.OK, self.server.owner.complete(parse(self.rfile.read(int(length)))))
        except HealthError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except StepTuneError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except RuntimeError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a line per request would be the loudest thing in a run."""

    def _unknown_path(self) -> None:
        allowed = "POST /v1/completions, GET /v1/models, GET /health"
        self._refuse(
            HTTPStatus.NOT_FOUND,
            explain("there is no such page", got=f"{self.command} {self.path}", allowed=allowed, hint="check the URL"),
        )

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        kind = "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
        self._send(status, {"error": {"message": message, "type": kind}})

    def _send(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
