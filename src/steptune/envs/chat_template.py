"""A folder's chat template: Jinja text that turns messages into the prompt a chat model was trained on.

Rendered as transformers does (https://huggingface.co/docs/transformers/chat_templating_writing), in Jinja's sandbox:
a template is somebody else's program. The surprise: a template may ask for today's date; it is not told, because a
prompt that changes overnight is no fixed workload.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

from steptune.core.errors import ModelError, explain

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATE_FILE = "chat_template.jinja"
"""Where newer folders keep the template; older ones have it in the tokenizer's settings."""

SPECIALS = ("bos_token", "eos_token", "pad_token", "unk_token")
"""Names under which a template finds special tokens."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """The template and the special tokens it may name."""

    text: str
    specials: dict[str, str]

    @classmethod
    def read(cls, folder: Path, settings: Mapping[str, Any]) -> Self:
        """Return the folder's template; ``settings`` are those of its tokenizer.

        Raises:
            ModelError: it has none.
        """
        path = folder / TEMPLATE_FILE
        text = path.read_text(encoding="utf-8") if path.is_file() else _default_of(settings.get("chat_template"))
        if not isinstance(text, str):
            hint = "leave `model.chat` out, or take an instruction-tuned model"
            raise _refused(f"`{folder}` has no chat template", "`model.chat = true`", "a folder with one", hint)
        named = {name: settings.get(name) for name in SPECIALS}
        texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
        return cls(text=text, specials={name: value for name, value in texts.items() if isinstance(value, str)})

    def asking(self, text: str) -> str:
        """Return the chat in which the user has said ``text`` and the answer is due.

        Raises:
            ModelError: the template is wrong, or refuses the message.
        """
        messages = [{"role": "user", "content": text}]
        try:
            return _compiled(self.text).render(messages=messages, add_generation_prompt=True, **self.specials)
        except ModelError:
            raise
        except Exception as error:  # somebody else's program, which may fail as it likes
            raise _refused("the chat template fails", error, "a prompt", "leave `model.chat` out") from error


@cache
def _compiled(text: str) -> "Template":
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    return environment.from_string(text, globals={"raise_exception": _refuse})


def _default_of(found: object) -> object:
    """Return the template of a list of named ones, the only one where there is no list."""
    if isinstance(found, list):
        return next((entry.get("template") for entry in found if entry.get("name") == "default"), None)
    return found


def _refuse(message: str) -> NoReturn:
    raise _refused("the chat template refuses the prompt", message, "a message of the user", "leave `model.chat` out")


def _refused(what: str, got: object, allowed: str, hint: str) -> ModelError:
    return ModelError(explain(what, got=got, allowed=allowed, hint=hint))
