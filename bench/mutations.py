"""What can happen to a log between a terminal and us: cut, glued, coloured, damaged, repeated, shuffled.

Every mutation takes bytes and returns bytes; all chance comes from the generator it is given.
"""

import re
from collections.abc import Callable, Sequence
from random import Random

COLOURS = (b"\x1b[36m", b"\x1b[1;31m", b"\x1b[0m", b"\x1b[38;5;214m", b"\x1b[K", b"\x1b[2K\r")
"""What terminals, Ray and progress bars leave in a log."""

PREFIXES = (
    b"(TaskRunner pid=4211) ",
    b"\x1b[36m(WorkerDict pid=77, ip=10.0.0.3)\x1b[0m ",
    b"(pid=9) [repeated 15x across cluster] ",
    b"2025-03-01 12:00:00,123 INFO ",
    b"> ",
)
"""What stands before a line when several programs write, or someone quotes."""

NOISE = (
    b"\x00",
    b"\xff",
    b"\r",
    b"nan",
    b"-1",
    b"1e999",
    b"inf",
    b"%",
    b"np.float64(",
    b"'",
    b'"',
    b"{",
    b"[",
    b"\xe2\x96",
)
"""Bytes put into the middle of a line: NUL, no UTF-8, numbers that are none, brackets nobody closes."""

ODD_NUMBERS = (
    *(b"0", b"-1", b"0.000", b"nan", b"NaN", b"inf", b"-inf", b"1e308", b"1e-308", b"1.36+06", b"None", b"", b"-0.0"),
    *(b"99999999999999999999", b"1,234", b"12.3%", b"1e400", b"0x10", b"1_000", b"3.14.15"),
)
"""Zeros, unknowns, infinities, what overflows, and what only looks like a number."""

NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][+-]?\d+)?")

MAX_BYTES = 400_000
"""Length at which growing mutations stop, in bytes: the question is what is read, not how much."""


def truncate(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Cut the head, the tail or both, in the middle of a line."""
    if not data:
        return data
    start, end = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
    return data[start if chance.random() < 0.5 else 0 : end]


def splice(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Put a part of another post into this one."""
    other = chance.choice(others)
    at, part = chance.randrange(len(data) + 1), truncate(other, others, chance)
    return (data[:at] + part + data[at:])[:MAX_BYTES]


def recolour(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Put colours and prefixes into lines."""

    def painted(line: bytes) -> bytes:
        if chance.random() < 0.5:
            return line
        at = chance.randrange(len(line) + 1)
        lead = chance.choice(PREFIXES) if chance.random() < 0.5 else b""
        return lead + line[:at] + chance.choice(COLOURS) + line[at:]

    return b"\n".join(map(painted, data.split(b"\n")))[:MAX_BYTES]


def corrupt(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Change, drop or insert bytes."""
    damaged = bytearray(data)
    for _ in range(1 + chance.randrange(20)):
        at = chance.randrange(len(damaged) + 1)
        kind = chance.randrange(3)
        if kind == 0 and at < len(damaged):
            damaged[at] = chance.randrange(256)
        elif kind == 1:
            del damaged[at : at + 1 + chance.randrange(4)]
        else:
            damaged[at:at] = chance.choice(NOISE)
    return bytes(damaged)


def duplicate(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Repeat lines, as two loggers or a pager do."""
    lines = data.splitlines(keepends=True)
    return b"".join(line * (1 + (chance.random() < 0.3) * chance.randrange(1, 3)) for line in lines)[:MAX_BYTES]


def drop(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Lose lines."""
    keep = chance.random()
    return b"".join(line for line in data.splitlines(keepends=True) if chance.random() < keep)


def shuffle(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Cut into blocks of lines and put them in another order, as several actors at once do."""
    lines = data.splitlines(keepends=True)
    size = 1 + chance.randrange(8)
    blocks = [lines[i : i + size] for i in range(0, len(lines), size)]
    chance.shuffle(blocks)
    return b"".join(line for block in blocks for line in block)


def rewrap(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Change line ends, or wrap at a width, or glue everything into one line."""
    kind = chance.randrange(3)
    if kind == 0:
        return data.replace(b"\n", b"\r\n")
    if kind == 1:
        return data.replace(b"\n", b" ")
    width = chance.randrange(20, 200)
    lines = [line[i : i + width] for line in data.split(b"\n") for i in range(0, max(1, len(line)), width)]
    return b"\n".join(lines)


def renumber(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Replace numbers by ones that break arithmetic."""
    rate = chance.choice((0.02, 0.2, 1.0))

    def other(match: re.Match[bytes]) -> bytes:
        return chance.choice(ODD_NUMBERS) if chance.random() < rate else match.group()

    return NUMBER.sub(other, data)


MUTATIONS: dict[str, Callable[[bytes, Sequence[bytes], Random], bytes]] = {
    mutation.__name__: mutation
    for mutation in (truncate, splice, recolour, corrupt, duplicate, drop, shuffle, rewrap, renumber)
}
"""Every mutation by its name."""

MAX_AT_ONCE = 3
"""Mutations of one input."""


def mutate(posts: Sequence[bytes], chance: Random) -> tuple[bytes, tuple[str, ...]]:
    """Return a mutated post and the names of what was done to it."""
    names = tuple(chance.choice(list(MUTATIONS)) for _ in range(1 + chance.randrange(MAX_AT_ONCE)))
    data = chance.choice(posts)
    for name in names:
        data = MUTATIONS[name](data, posts, chance)
    return data, names
