"""Which Python calls configure a training, and under which keys their arguments go.

The surprise: `from_pretrained` configures only where a library gives it more than loading to do (Unsloth's
`FastLanguageModel`), and a trainer's own arguments are objects; only its `args=` is configuration.
"""

import re

_PLAIN = re.compile(r"\w*(?:Config|Arguments|Args)|Namespace")
_PREFIXED = re.compile(r"(?:Lora|Peft|BitsAndBytes|Quant|Generation|Model|Script|Dataset)\w*(?:Config|Arguments)")
_LOADER = re.compile(r"Fast\w*\.from_pretrained")


def key_prefix(name: str) -> str | None:
    """Return what goes before the keys of a call's arguments, or None when the call configures nothing.

    >>> key_prefix("GRPOConfig"), key_prefix("peft.LoraConfig"), key_prefix("AutoModel.from_pretrained")
    ('', 'LoraConfig.', None)
    """
    leaf = name.rsplit(".", 1)[-1]
    if _PREFIXED.fullmatch(leaf):
        return f"{leaf}."
    is_known = _PLAIN.fullmatch(leaf) or _LOADER.fullmatch(name)
    return "" if is_known else None


def is_trainer(name: str) -> bool:
    """Whether a call builds a trainer, whose ``args=`` may hold the configuration."""
    return name.rsplit(".", 1)[-1].endswith("Trainer")
