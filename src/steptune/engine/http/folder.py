"""A model folder behind the endpoint, as `steptune serve` starts it: a checkpoint of `steptune train` or any other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune.core.errors import JobError, explain
from steptune.core.pretrained import HfModel
from steptune.engine.hf.find import find_model, load_found
from steptune.engine.http.server import CompletionServer
from steptune.engine.knobs import EngineKnobs
from steptune.engine.rollout import RolloutEngine
from steptune.envs.hf_tokenizer import HfTokenizer


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PromptTokenizer:
    """Implements `wire.Tokenizer`: a prompt begins with what the folder's tokenizer puts before a text."""

    tokenizer: HfTokenizer

    def encode(self, text: str) -> list[int]:
        """Return the ids of a prompt."""
        return self.tokenizer.encode_prompt(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, without special tokens."""
        return self.tokenizer.decode(ids)


def serve_folder(folder: Path, *, port: int) -> CompletionServer:
    """Return a running server of the folder's model, in float32; ``port`` 0 takes a free one.

    Raises:
        ModelError: the folder, its weights or its tokenizer cannot be used.
        JobError: somebody else has the port.
    """
    spec = find_model(HfModel(folder=str(folder.absolute())), folder)
    told = spec.pretrained
    assert told is not None, "`find_model` tells it"
    engine = RolloutEngine(
        spec,
        EngineKnobs(compact_finished=True, share_prefill=True),
        vocab_size=told.vocab_size,
        pad_id=told.pad_id,
        eos_id=told.eos_id,
        other_eos_ids=told.other_eos_ids,
        context_len=told.context_len,
    )
    engine.load(load_found(spec), version=0)
    tokenizer = PromptTokenizer(tokenizer=HfTokenizer(told))
    try:
        return CompletionServer(engine, model_name=folder.name, pad_id=told.pad_id, tokenizer=tokenizer, port=port)
    except OSError as error:
        raise JobError(
            explain(
                f"port {port} cannot be listened on",
                got=error.strerror or error,
                allowed="a free port of the loopback address",
                hint="`--port 0` takes one",
            )
        ) from error
