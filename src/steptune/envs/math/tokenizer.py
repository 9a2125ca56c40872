"""A small fixed vocabulary: digits, operators and whole phrases.

Surprise: phrases carry their own spaces, so decoding is plain concatenation and exact.
"""

import re
from collections.abc import Iterable
from typing import Final, final

from steptune.core.errors import ReadError, explain
from steptune.envs.math.stories import STORY_PIECES

SPECIALS: Final = ("", "", "")
"""Text of PAD, BOS and EOS: they are read as nothing."""

UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"
"""Text of an id outside the vocabulary."""


@final
class MathTokenizer:
    """Turns problem and completion text into ids and back; has no state beyond its vocabulary."""

    pad_id: Final = 0
    bos_id: Final = 1
    eos_id: Final = 2
    other_eos_ids: Final = ()

    def __init__(self) -> None:
        self._pieces = (*SPECIALS, *"0123456789+-*=?#", *STORY_PIECES)
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if piece}
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    @property
    def vocab_size(self) -> int:
        """Number of token ids, specials included."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, longest piece first, without specials.

        Raises:
            ReadError: a character belongs to no piece.
        """
        ids: list[int] = []
        at = 0
        while at < len(text):
            found = self._pattern.match(text, at)
            if found is None:
                raise ReadError(
                    explain(
                        f"text has no token at character {at}",
                        got=repr(text[at : at + 8]),
                        allowed="digits, operators and the story phrases",
                        hint="use text made by `problems`",
                    )
                )
            ids.append(self._ids[found.group()])
            at = found.end()
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """Return BOS and the ids of ``text``."""
        return [self.bos_id, *self.encode(text)]

    def encode_completion(self, text: str) -> list[int]:
        """Return the ids of ``text`` and EOS."""
        return [*self.encode(text), self.eos_id]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of any id sequence; specials are nothing, foreign ids are U+FFFD."""
        pieces = self._pieces
        return "".join(pieces[i] if 0 <= i < len(pieces) else UNKNOWN for i in ids)
