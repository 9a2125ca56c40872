"""Secrets out of what is shown: nobody posts an API key in an issue because our report quoted their script.

Two passes. The first finds secrets by their shape (``hf_...``), by the name beside them (``WANDB_API_KEY=...``), by
the key of a setting and by looking random next to a word like key (`redact_likely`); the second replaces them wherever
they stand, so a secret quoted without its name goes too.
Surprise: names stay, values go, and a text that is redacted already does not change again.
"""

import re
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from steptune.core.comparison import SettingDifference
from steptune.core.paste import Setting
from steptune.report.redact_homes import hide_homes
from steptune.report.redact_likely import hide_likely, likely_secrets, likely_values
from steptune.report.strings import all_strings, map_strings

REDACTED = "[redacted]"
"""What stands in place of a secret."""

MIN_SECRET = 6
"""Characters from which a named value is replaced everywhere: shorter ones are ordinary words."""

MIN_BARE_TOKEN = 16
"""Characters from which the value of a weak name is a secret, whatever it looks like: in these logs a token is mostly a
piece of text."""

_WEAK = frozenset(("token", "pwd", "pw", "auth"))
"""Names that stand for a secret as often as for something else, so the value decides."""

_DRAWN = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[A-Za-z0-9_+=!@#$%^&*~-]{4,}")
"""Letters and digits mixed: what a short password or code looks like."""

_QUANTITY = re.compile(
    r"[-+]?\d[\d._]*(?:e[-+]?\d+|[A-Za-z%]{1,6})?|0x[0-9a-f]+|v\d+|(?:u?int|fp|bf|f)\d+(?:_?e\dm\d)?", re.IGNORECASE
)
"""What mixes them too and is none: a number with its unit, a version, a type."""

RecordT = TypeVar("RecordT", bound=BaseModel)

_NAME = (
    r"(?:[A-Za-z0-9_.-]*(?:api[_-]?key|secret[_-]?(?:access[_-]?)?key|access[_-]?key(?:[_-]?id)?|client[_-]?secret|"
    r"secret|passwd|password|passphrase|private[_-]?key|credentials?)|"
    r"(?:[A-Za-z0-9_.-]*[_.-])?(?:auth|access|hf|hub|bearer|refresh|session|github|gh|gitlab|wandb|huggingface|"
    r"api|slack|bot)[_-]?token|token|pwd|pw|auth)"
)
_QUOTE = r"\\?[\"']?"
_VALUE = rf"(?:\"[^\"\n]*\"|'[^'\n]*'|{_QUOTE}[^\s\"',;&)}}\]\\]+)"

NAMED = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?P<name>{_NAME})(?P<gap>{_QUOTE}\]?\s*(?:=|:(?!:|//))\s*)(?P<value>{_VALUE})", re.IGNORECASE
)
"""``WANDB_API_KEY=...``, ``"api_key": "..."``, ``trainer.hf_token: ...``."""

FLAG = re.compile(rf"(?<!\S)(?P<name>--?{_NAME})(?P<gap>\s+)(?P<value>{_VALUE})", re.IGNORECASE)
"""``--api-key x``."""

BEARER = re.compile(
    r"(?P<name>\b(?:bearer|basic|authorization:\s*token|wandb\s+login))(?P<gap>\s+)(?P<value>[A-Za-z0-9+/_.=~-]{16,})",
    re.IGNORECASE,
)
"""``Authorization: Bearer ...``, ``wandb login ...``."""

IN_URL = re.compile(
    r"(?P<name>\b[a-z][a-z0-9+.-]{0,20}://[^\s:/@]{0,100})(?P<gap>:)(?P<value>[^\s/@]{1,200})(?=@)", re.IGNORECASE
)
"""The password of ``scheme://user:password@host``."""

SHAPES = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
    r"|^[A-Za-z0-9+/]{60,}={0,2}$"
    r"|\b(?:(?:hf|api_org)_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abpors]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[A-Za-z0-9_-]{30,}|wandb_v1_[A-Za-z0-9_]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
    re.DOTALL | re.MULTILINE,
)
"""Secrets that tell by themselves: private keys (whole, or a line of one), Hugging Face, OpenAI style, GitHub, GitLab,
Slack, AWS, Google, W&B, JSON web tokens."""

_NAMED_ANYHOW = (BEARER, NAMED, FLAG, IN_URL)
_SECRET_KEY = re.compile(rf"(?:.*[.\s])?{_NAME}", re.IGNORECASE)
_PASSWORD = re.compile(r"passw|passphrase")
_HARMLESS = re.compile(
    r"(?:none|null|true|false|\d{1,5}|\$\{?\w+\}?|\$\{.*|\$\(.*|<.*>?|\*+|x+|\.{2,}.*|os\.\w+.*|\[redacted\]?)",
    re.IGNORECASE,
)


def redact_text(text: str) -> str:
    """Return ``text`` without secrets.

    >>> redact_text("export WANDB_API_KEY=0123456789abcdef && run --api-key abcdefgh")
    'export WANDB_API_KEY=[redacted] && run --api-key [redacted]'
    """
    text = SHAPES.sub(REDACTED, text)
    for pattern in _NAMED_ANYHOW:
        text = pattern.sub(_without_value, text)
    return hide_homes(hide_likely(text, REDACTED))


def redact(record: RecordT) -> RecordT:
    """Return ``record`` with every secret replaced in every string, however it is quoted."""
    secrets = sorted(set(_secrets(record)), key=lambda secret: (-len(secret), secret))
    known = re.compile("|".join(map(re.escape, secrets))) if secrets else None

    def change(text: str) -> str:
        return redact_text(known.sub(REDACTED, text) if known else text)

    return map_strings(record, change, _blanked)


def is_secret_key(key: str) -> bool:
    """Return whether a setting of this name holds a secret: ``env.WANDB_API_KEY``, ``trainer.hf_token``."""
    return key.lower() not in _WEAK and _SECRET_KEY.fullmatch(key) is not None


def _without_value(match: re.Match[str]) -> str:
    if not _is_secret(match):
        return match.group()
    value = match["value"]
    core = _core(value)
    return f"{match['name']}{match['gap']}{value.replace(core, REDACTED, 1)}"


def _core(value: str) -> str:
    return value.strip("\\\"'")


def _is_secret(match: re.Match[str]) -> bool:
    name, value = match["name"].lower(), _core(match["value"])
    is_pin = value.isdigit() and _PASSWORD.search(name) is not None
    if not value or (_HARMLESS.fullmatch(value) and not is_pin) or (match.re is FLAG and value.startswith("-")):
        return False
    if match.re is BEARER:
        return any(character.isdigit() for character in value)
    if name.strip("-") in _WEAK:
        return _is_weak_secret(value)
    return not (name.endswith("token") and value.replace(".", "", 1).isdigit())


def _is_weak_secret(value: str) -> bool:
    if value.startswith(("/", "~", ".")):
        return False
    if _DRAWN.fullmatch(value) and not _QUANTITY.fullmatch(value):
        return True
    return len(value) >= MIN_BARE_TOKEN and value.isascii() and not value.isalpha()


def _secrets(record: BaseModel) -> Iterator[str]:
    """Yield the secrets that are safe to replace wherever they stand."""
    for text in all_strings(record):
        yield from (match.group() for match in SHAPES.finditer(text))
        for pattern in _NAMED_ANYHOW:
            values = (_core(match["value"]) for match in pattern.finditer(text) if _is_secret(match))
            yield from (value for value in values if len(value) >= MIN_SECRET)
        yield from likely_secrets(text)
    yield from _secret_settings(record)


def _secret_settings(record: BaseModel) -> list[str]:
    found: list[str] = []

    def note(held: BaseModel) -> BaseModel:
        if isinstance(held, Setting):
            found.extend(_values(held.key, held.text))
        if isinstance(held, SettingDifference):
            found.extend(value for side in (held.a, held.b) for value in _values(held.key, str(side)))
        return held

    map_strings(record, lambda text: text, note)
    return [value for value in found if len(value) >= MIN_SECRET]


def _blanked(record: BaseModel) -> BaseModel:
    """Return a setting without its secret value, whatever its type: a key of digits only is a number to a reader."""
    if isinstance(record, Setting) and _is_secret_value(record.key, record.text):
        return record.model_copy(update={"value": REDACTED, "text": REDACTED})
    if isinstance(record, SettingDifference):
        hidden = {side: REDACTED for side in ("a", "b") if _is_secret_value(record.key, str(getattr(record, side)))}
        return record.model_copy(update=hidden)
    return record


def _values(key: str, text: str) -> list[str]:
    core = _core(text)
    if key.rpartition(".")[2].lower() in _WEAK:
        return [core] if core and not _HARMLESS.fullmatch(core) and _is_weak_secret(core) else []
    if is_secret_key(key):
        return [core] if core and not _HARMLESS.fullmatch(core) else []
    return likely_values(key, core)


def _is_secret_value(key: str, text: str) -> bool:
    return _core(text) in _values(key, text)
