"""What comes in and goes out as JSON: OpenAI's completion request, with token ids going both ways.

Surprise: a field that this engine would have to ignore (`stop`, `top_p` below 1, streaming) is refused. An ignored
sampling setting gives text nobody asked for and log-probs of another distribution.
"""

import json
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, StrictInt, StrictStr, ValidationError

from steptune.core.errors import JobError, explain
from steptune.core.records import Record

Text = Annotated[StrictStr, Field(min_length=1)]
Tokens = Annotated[list[StrictInt], Field(min_length=1)]


class Tokenizer(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Return the text of token ids."""
        ...


class CompletionRequest(Record):
    """The body of ``POST /v1/completions``.

    Example: ``{"prompt": [1, 5, 9], "n": 8, "max_tokens": 64, "temperature": 1.0, "seed": 7, "logprobs": 0}``.
    """

    model: StrictStr | None = None
    prompt: Text | Tokens | Annotated[list[Text], Field(min_length=1)] | Annotated[list[Tokens], Field(min_length=1)]
    """Text, token ids, or several prompts of either kind."""
    n: Annotated[StrictInt, Field(ge=1, le=1024)] = 1
    """Completions per prompt."""
    max_tokens: Annotated[StrictInt, Field(ge=1)] = 16
    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    """0 takes the likeliest token."""
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 0
    """Same seed, prompt and weights: same completion, whatever else is being decoded."""
    logprobs: Annotated[StrictInt, Field(ge=0, le=1)] | None = None
    """0 or 1 adds the log-prob of every chosen token; there are no alternatives to it."""
    top_p: Annotated[float, Field(ge=1, le=1)] = 1.0
    echo: Literal[False] = False
    stream: Literal[False] = False
    user: StrictStr | None = None


def parse(body: bytes) -> CompletionRequest:
    """Return the request.

    Raises:
        JobError: not JSON, a field that is wrong, missing or not known here.
    """
    try:
        fields = json.loads(body)
        return CompletionRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][:1]) or "the body"
        missing = first["type"] == "missing"
        raise JobError(
            explain(
                f"`{field}` of the request: {first['msg']}",
                got="nothing" if missing else repr(first["input"]),
                allowed=", ".join(CompletionRequest.model_fields),
                hint="see https://platform.openai.com/docs/api-reference/completions; prompts may be token ids",
            )
        ) from error
    except (ValueError, RecursionError) as error:
        raise JobError(
            explain("the body is not JSON", got=str(error), allowed="a JSON table", hint="send a JSON object")
        ) from error


def prompts_of(request: CompletionRequest, tokenizer: Tokenizer | None) -> list[list[int]]:
    """Return every prompt as token ids.

    Raises:
        JobError: text where the server has no tokenizer.
        ReadError: text that the tokenizer cannot read.
    """
    prompt: Any = request.prompt
    prompts: list[Any] = [prompt] if isinstance(prompt, str) or isinstance(prompt[0], int) else prompt
    if isinstance(prompts[0], str) and tokenizer is None:
        raise JobError(
            explain("this server has no tokenizer", got="a prompt as text", allowed="token ids", hint="send token ids")
        )
    return [tokenizer.encode(one) if tokenizer is not None and isinstance(one, str) else one for one in prompts]
