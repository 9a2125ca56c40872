"""Public models by name: `Qwen/Qwen2.5-7B-Instruct` in a log is the shape that its config.json describes.

A name is known where one of the table's names stands in it as whole words, the longest first, so that fine-tunes and
re-uploads of a model resolve to it. The surprise: a name can also say that the shape was changed (`GLM-5 4-layer`,
`dummy`, `draft`); such a name is not the model it is called after, and is refused.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import cast

from steptune.core.errors import ModelError, explain, nearest
from steptune.core.records import Record
from steptune.shapes.config import shape_of
from steptune.shapes.shape import ModelShape

_CHANGED = re.compile(
    r"(?<![a-z])(?:\d+-?layers?|layers?-?\d+|dummy|tiny|random|toy|pruned|draft|drafter|eagle\d?|speculator|reduced|mini)"
    r"(?![a-z])"
)
"""Words that say the shape is not the named model's."""


class UnknownNameError(ModelError):
    """No model of the table is called so."""


class NamedModel(Record):
    """One row of the table: names, the fields of the config.json, and what its card says of its size."""

    names: tuple[str, ...]
    """In lower case, most usual first."""
    source: str
    published_b: float | None = None
    """Parameters in 1e9 as the card states them; None where the card counts a vision tower too."""
    published_active_b: float | None = None
    """Parameters a token meets, in 1e9, as the card states them."""
    config: dict[str, str | int | float | bool]
    """Fields of the config.json that decide the shape."""

    def shape(self) -> ModelShape:
        """Return the shape."""
        return shape_of(self.names[0], self.config)


@cache
def models() -> tuple[NamedModel, ...]:
    """Return every model of the table."""
    text = files("steptune.shapes").joinpath("data", "models.toml").read_text(encoding="utf-8")
    rows = cast("list[dict[str, object]]", tomllib.loads(text)["model"])
    return tuple(NamedModel.model_validate(row) for row in rows)


def find_model(name: str) -> NamedModel | None:
    """Return the model whose longest name stands in ``name``; None where there is none, or the shape was changed."""
    plain = _plain(name)
    if _CHANGED.search(plain):
        return None
    return next((model for pattern, model in _patterns() if pattern.search(plain)), None)


def named_shape(name: str) -> ModelShape:
    """Return the shape of a public model.

    Raises:
        UnknownNameError: the name is not in the table; the message has its names, the nearest ones apart.
    """
    model = find_model(name)
    if model is None:
        known = [one for row in models() for one in row.names]
        raise UnknownNameError(
            explain(
                "the shape of this model is not known",
                got=f"`{name}`",
                allowed=f"{', '.join(row.names[0] for row in models())}, or the path of a config.json",
                hint=f"{_near(name, known)} For any other, give the path of its config.json",
            )
        )
    return model.shape()


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], NamedModel], ...]:
    rows = [(name, model) for model in models() for name in model.names]
    rows.sort(key=lambda row: -len(row[0]))
    return tuple((re.compile(rf"(?<![a-z0-9.]){re.escape(name)}(?![a-z0-9]|\.\d)"), model) for name, model in rows)


def _plain(name: str) -> str:
    """Return a name in lower case, its separators alike: `Qwen_Qwen2.5 7B` is `qwen-qwen2.5-7b`."""
    return re.sub(r"[\s_/\\:]+", "-", name.strip().lower())


def _near(name: str, known: list[str]) -> str:
    last = _plain(name.rstrip("/").rsplit("/", 1)[-1])
    hint = nearest(last, known)
    return hint if hint.startswith("did you mean") else f"the table has {len(known)} names, as `{known[0]}`."
