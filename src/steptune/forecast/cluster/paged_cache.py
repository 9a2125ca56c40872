"""A paged KV cache as vLLM keeps it: blocks with counts, full ones findable by content, the longest unused thrown out.

::

    free blocks, next one taken first:   [no content] ... [content, unused longest] ... [content, freed last]

A row's blocks are freed from its end, so its beginning stays findable longest. The surprise: a block in use is not
the only one that serves a prefix: a finished or preempted row's blocks do until somebody takes them. Rules read off
`block_pool.py` and `kv_cache_manager.py` of vLLM 0.32 (https://github.com/vllm-project/vllm/tree/main/vllm/v1/core).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

Content = tuple[int, int | None, int]
"""What a full block holds: group, row (None: the group's prompt alone) and place in the row."""


@final
@dataclass(kw_only=True, slots=True, eq=False)
class Block:
    """One block."""

    index: int
    users: int = 0
    content: Content | None = None
    """None while it is not full, and where prefixes are not kept."""


@final
class PagedCache:
    """``PagedCache(num_blocks=24, keeps_prefixes=True)``: all blocks free, nothing to be found."""

    def __init__(self, *, num_blocks: int, keeps_prefixes: bool) -> None:
        self.keeps_prefixes = keeps_prefixes
        blocks = [Block(index=i) for i in range(num_blocks)]
        self._free: OrderedDict[int, Block] = OrderedDict((block.index, block) for block in blocks)
        self._found: dict[Content, Block] = {}

    @property
    def num_free(self) -> int:
        """Blocks that nobody uses; some may still be findable."""
        return len(self._free)

    def find(self, contents: Sequence[Content]) -> list[Block]:
        """Return the blocks of the longest beginning of ``contents`` that is here; nobody uses them by that."""
        found: list[Block] = []
        for content in contents:
            block = self._found.get(content)
            if block is None:
                break
            found.append(block)
        return found

    def num_missing(self, found: Sequence[Block], num_blocks: int) -> int:
        """Return the free blocks that a row of ``num_blocks`` takes: new ones, and found ones that nobody uses."""
        return num_blocks - len(found) + sum(not block.users for block in found)

    def use(self, found: Sequence[Block]) -> None:
        """Count one more user of every found block."""
        for block in found:
            if not block.users:
                del self._free[block.index]
            block.users += 1

    def take(self, count: int) -> list[Block]:
        """Take free blocks; what they held is gone. There must be so many."""
        taken: list[Block] = []
        for _ in range(count):
            _, block = self._free.popitem(last=False)
            if block.content is not None:
                self._found.pop(block.content, None)
                block.content = None
            block.users = 1
            taken.append(block)
        return taken

    def fill(self, block: Block, content: Content) -> None:
        """Note that a block is full; the first one of equal content is the one that is found."""
        if self.keeps_prefixes and block.content is None and content not in self._found:
            block.content = content
            self._found[content] = block

    def let_go(self, blocks: Sequence[Block]) -> None:
        """Count one user less of a row's blocks, its last one first; free ones without content are taken next."""
        kept, empty = list[Block](), list[Block]()
        for block in reversed(blocks):
            block.users -= 1
            if not block.users:
                (empty if block.content is None else kept).append(block)
        for block in kept:
            self._free[block.index] = block
        for block in reversed(empty):
            self._free[block.index] = block
            self._free.move_to_end(block.index, last=False)
