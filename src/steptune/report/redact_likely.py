"""Values that are likely secrets: a random-looking token beside a word like key, token or password, or `use_wandb`.

The names are many (``trainer.wandb_key``, ``data.hf_key``, ``key=``), so here the value decides: it must look drawn
at random. Surprise: a commit hash looks so too, and stays readable unless such a word stands right before it.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

MIN_LENGTH = 16
"""Characters from which a value may be a secret; shorter ones are words and numbers far more often."""

MIN_PIECE = 12
"""Characters without a separator from which a part of a value can be called random: the last part of a UUID."""

MIN_LETTERS = 20
"""Characters from which letters alone, capitals and small ones mixed, can be called random."""

_WORD = (
    r"(?:key|token|secret|password|passwd|passphrase|credential|use_wandb|use_swanlab)s?(?![A-Za-z])[A-Za-z0-9_-]{0,40}"
)
_GAP = r"(?:[\"'\\\]`,(:= \t]|\b(?:is|was|of|for|from|the|my|your|value|wandb|set|to|as)\b){1,12}"
_TOKEN = r"[A-Za-z0-9+/_.=~!#$%^&*-]{15,500}[A-Za-z0-9+/_=~!#$%^&*-]"
_START = r"(?<![A-Za-z0-9+/_.=~!#$%^&*-])"

_AS_MY = r"[\"'` \t]{1,4}(?:is|as|was)(?:[ \t]{1,4}[A-Za-z&_]{1,20}){0,3}?[ \t]{1,4}"

NAMED_LIKELY = re.compile(rf"(?P<name>{_WORD})(?P<gap>{_GAP})(?P<value>{_TOKEN})", re.IGNORECASE)
"""``--wandb_key V``, ``use_wandb=V``, ``password V``, ``the W&B key is V``."""

SAID_AFTER = re.compile(rf"{_START}(?P<value>{_TOKEN})(?P<gap>{_AS_MY})(?P<name>{_WORD})", re.IGNORECASE)
"""``using V as the wandb key``."""

_KEY_WORD = re.compile(_WORD, re.IGNORECASE)
_TOKENS = re.compile(_TOKEN)
_PATH = re.compile(r"[/.~$].*|.*\.[A-Za-z]{1,6}[0-9]?")
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")


def hide_likely(text: str, stand_in: str) -> str:
    """Return ``text`` with ``stand_in`` for every likely secret."""
    for pattern in (NAMED_LIKELY, SAID_AFTER):
        text = pattern.sub(lambda match: _hidden(match, stand_in), text)
    return text


def likely_secrets(text: str) -> Iterator[str]:
    """Yield the likely secrets that ``text`` names."""
    for pattern in (NAMED_LIKELY, SAID_AFTER):
        yield from (match["value"] for match in pattern.finditer(text) if looks_secret(match["value"]))


def likely_values(key: str, text: str) -> list[str]:
    """Return the likely secrets in the value of a setting: ``trainer.wandb_key``, ``use_wandb``; not ``tokenizer``."""
    if _KEY_WORD.search(key.rpartition(".")[2]) is None:
        return []
    return [value for value in _TOKENS.findall(text) if looks_secret(value)]


def looks_secret(value: str) -> bool:
    """Return whether ``value`` looks drawn at random: long, letters and digits mixed, no path and no number.

    >>> looks_secret("0123456789abcdef0123456789abcdef01234567"), looks_secret("Qwen/Qwen2.5-7B-Instruct")
    (True, False)
    """
    if len(value) < MIN_LENGTH or _PATH.fullmatch(value):
        return False
    whole = value.replace("-", "")
    if _HEX.fullmatch(whole) and not whole.isdigit() and not whole.isalpha():
        return True
    return any(_is_random(piece) for piece in re.split(r"[^A-Za-z0-9]+", value))


def _is_random(piece: str) -> bool:
    kinds = ["digit" if c.isdigit() else "upper" if c.isupper() else "lower" for c in piece]
    switches = sum(a != b for a, b in pairwise(kinds))
    if "digit" in kinds:
        return len(piece) >= MIN_PIECE and switches >= max(3, len(piece) // 6)
    return len(piece) >= MIN_LETTERS and switches >= len(piece) // 4


def _hidden(match: re.Match[str], stand_in: str) -> str:
    value = match["value"]
    return match.group().replace(value, stand_in) if looks_secret(value) else match.group()
