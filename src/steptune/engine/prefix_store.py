"""Keys, values and states of finished turns, for prompts that go on where an earlier row ended.

In a conversation with tools every prompt is the last one, its completion and something new. What was computed for the
old part is kept by its exact token ids, so a turn pays for its new tokens only. Three rules keep reuse right: an entry
is found by all of its ids, never by a hash of them; it belongs to one weight version and is dropped with it; it is used
whole or not at all, because a recurrent state cannot be cut. Surprise: history that is rewritten (reasoning dropped
between turns, text tokenised again) shares no entry and is computed anew; the hit counts show it.

Shape letters: L stored tokens, K key/value head, E head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from torch import Tensor

MAX_STORED_TOKENS = 65_536
"""Tokens kept over all entries, the oldest dropped first: 1.5 GB at SmolLM2-135M in float32, 23 KB a token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPrefix:
    """What a row held after ``num_tokens`` tokens."""

    num_tokens: int
    version: int
    kv: Tensor
    """[full-attention layers, 2, K, L, E]."""
    states: tuple[Tensor, Tensor] | None
    """Memory and convolution tail of all recurrent layers; None where there is none."""


@final
class PrefixStore:
    """Finished turns of one engine."""

    def __init__(self, max_tokens: int = MAX_STORED_TOKENS) -> None:
        self.max_tokens: Final = max_tokens
        self.num_hits = self.num_misses = 0
        """Distinct prompts that began with a stored turn, and that did not."""
        self._entries: dict[tuple[int, ...], StoredPrefix] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, tokens: tuple[int, ...], entry: StoredPrefix) -> None:
        """Keep a finished turn; the oldest go when there is no room."""
        self._entries.pop(tokens, None)
        self._entries[tokens] = entry
        while sum(map(len, self._entries)) > self.max_tokens:
            self._entries.pop(next(iter(self._entries)))

    def longest(self, tokens: Sequence[int], version: int) -> StoredPrefix | None:
        """Return the longest entry of ``version`` that ``tokens`` begin with, counting a hit or a miss."""
        for length in sorted({len(key) for key in self._entries if len(key) <= len(tokens)}, reverse=True):
            entry = self._entries.get(tuple(tokens[:length]))
            if entry is not None and entry.version == version:
                self.num_hits += 1
                return entry
        self.num_misses += 1
        return None

    def clear(self) -> None:
        """Drop everything: the weights have changed."""
        self._entries.clear()
