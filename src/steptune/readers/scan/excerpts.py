"""Lines worth keeping whole: error texts with where they happened, warnings, statements of memory, progress bars.

The same message comes from every rank and every step: messages that differ only in their digits are counted, and the
*last* of them is kept for memory and progress (growth shows at the end), the *first* for errors (the cause).
"""

import re
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import final

from steptune.core.paste import Excerpt, ExcerptKind
from steptune.core.profile import Origin
from steptune.readers.scan.log_prefix import split_prefix
from steptune.readers.scan.notebook_frames import frame_in, is_heading, is_neighbour

MAX_EXCERPTS = 200
"""Different messages kept of one kind: more than a person reads, few enough for flat memory."""

LAST_EXCERPTS = 20
"""Of these the most recent ones."""

MAX_TEXT = 2000
"""Characters kept of one message; an out-of-memory text has about 600."""

FRAMES_KEPT = 80
"""Lines of a traceback kept before an error, innermost last: a forward pass of a model is 30 frames of two lines deep,
and the frame that names the phase is above it."""

FRAME_REACH = 300
"""Lines back from an error that its frames may be away: several ranks print theirs at once."""

_FRAMES_COMPARED = 16
"""Latest lines of a traceback among which the same line of another rank is left out."""

WITH_CONTEXT = (b"ut of memory", b"OutOfMemory", b"Traceback (most", b'  File "', b"^^^", b"validation error")
"""Literals of lines that go on in the next ones: a wrapped out-of-memory text, the code under a frame or under the
marks of the one before, where the frames themselves were cut out, the keys that a schema refuses."""

LONE = (b"still in use", b"Error:", b"xception:", b"SIGKILL", b"s/it]")
"""Literals of single lines that matter wherever they stand."""

LONE_AT_EDGES = (
    b"return OOM",
    b"allocate memory",
    b"Killed process",
    b"allowed memory",
    b"memory for the cache",
    b"MemoryError",
    b"less than desired",
    b"emory pressure",
    b"Free at OOM",
    b"oom",
    b"it/s",
    b"s/it",
    b"KV cache size",
    b"KV cache mem",
    b"KV Cache is alloc",
    b"GPU blocks",
    b"aximum concurrency",
    b"actual GPU",
    b"max_total_num_tokens",
    b"ragmentation",
    b"eak memory",
    b"emory profiling",
    b"fall asleep",
    b"wake up tags",
    b"Error",
    b"Exception",
    b"ERROR",
    b"CRITICAL",
    b"died unexpectedly",
    b"SIGSEGV",
    b": -9",
    b"code -9",
    b"status -9",
    b": 137",
    b"code 137",
    b"status 137",
    b"Killed",
    b"collective operation timeout",
    b"not in struct",
    b"Could not override",
    b"unrecognized arguments",
    b"Duplicate GPU",
    b"WARN",
    b"Warning",
    b"deprecated",
    b" ignored",
    b"take precedence",
    b"alling back",
    b"export ",
    b"os.environ[",
    b"checkpoint",
    b".distcp",
    b"time cost: ",
    b"time (ms)",
    b"ray::",
    b"low on memory",
    "→".encode(),
    b"->",
    b".py:",
    b".py in ",
    b"File <string>:",
    b"Worker.",
    b"+",
)
"""Literals of lines that are worth it at the beginning, where the job is set up, and at the end, where it fails:
one more literal costs every megabyte 0.6 ms."""

_FEW_LITERALS = tuple(literal.decode() for literal in (*WITH_CONTEXT, *LONE))
_ALL_LITERALS = (*_FEW_LITERALS, *(literal.decode() for literal in LONE_AT_EDGES))

_RECORD_LITERALS = (*_FEW_LITERALS, "it/s")

_LONG_LINE = 1500
"""Characters above which a line is a record of metrics, in which only the literals that matter anywhere are sought."""

_RECORD_PAIRS = 5
"""Pairs of a name and a number from which on a shorter line is one too, whether colons or pipes stand between them."""

_KINDS: tuple[tuple[ExcerptKind, tuple[str, ...], re.Pattern[str]], ...] = (
    (
        ExcerptKind.OOM,
        ("emory", "oom", "OOM", "Killed process"),
        re.compile(
            r"ut of memory|OutOfMemory|running low on memory|return OOM"
            r"|annot allocate memory|\boom[-_ ]?kill|Killed process|MemoryError"
            r"|would exceed allowed memory|No available memory for the cache|less than desired GPU memory"
            r"|emory pressure|Free at OOM"
        ),
    ),
    (ExcerptKind.PROGRESS, ("it",), re.compile(r"\d+/\d+ \[[^\]\n]{0,60}?\d(?:\.\d+)? ?(?:s/it|it/s)")),
    (
        ExcerptKind.MEMORY,
        ("emory", "leep", "KV ", "GPU ", "aximum", "max_total", "ragmentation", "wake up"),
        re.compile(
            r"memory is still in use|Sleep mode freed|KV [Cc]ache (?:size|mem|is alloc)|GPU blocks"
            r"|[Mm]aximum concurrency|actual GPU [Uu]tilization|max_total_num_tokens|ragmentation"
            r"|[Pp]eak memory|emory profiling|wake up tags|fall asleep"
        ),
    ),
    (
        ExcerptKind.ERROR,
        (
            "not in struct",
            "Could not override",
            "unrecognized arg",
            "Duplicate GPU",
            "rror",
            "xception",
            "ERROR",
            "CRITICAL",
            "unexpectedly",
            "SIG",
            "collective",
            "Killed",
            "code",
            "status",
        ),
        re.compile(
            r"^\W*(?:\w+\.){0,8}\w*(?:Error|Exception)\b|\bERROR\b|\bCRITICAL\b"
            r"|Unhandled error\b.*\bray::|died unexpectedly|SIGKILL|SIGSEGV|collective operation timeout|^Killed\b"
            r"|(?:exit|return)(?:ed with)?[ _]?(?:code|status)\s{0,4}\W{0,4}(?:137|-9)\b"
            r"|^Could not override '|^Key '[\w.-]+' is not in struct|error: unrecognized arguments"
            r"|^Duplicate GPU detected"
        ),
    ),
    (
        ExcerptKind.WARNING,
        ("WARN", "Warning", "deprecated", "ignored", "precedence", "alling back"),
        re.compile(r"\bWARN(?:ING)?\b|Warning\b|deprecated|(?:is|are|be) ignored|will take precedence|alling back"),
    ),
    (
        ExcerptKind.EVENT,
        ("",),
        re.compile(
            r"^\s*export \w+=|os\.environ\[|[Ss]av(?:ed|ing) (?:model )?checkpoint|\.distcp\b|[Ll]oaded checkpoint"
            r"|time cost: [\d.]+s|time \(ms\) \|"
            # the heading of one run among several: `fp8+--router-policy cache_aware`
            r"|^[A-Za-z][\w.]{0,40}(?: ?\+ ?(?:--)?[A-Za-z][\w.-]{0,40}(?:[ =][\w.-]{1,40})?){1,4}:?\s*$"
        ),
    ),
)
"""In order of weight: a line is kept for the first that fits. One of the literals is in every line of the kind."""

_SETUP_BAR = re.compile(
    r"\b(?:Loading|Captur|Download|Fetching|Filter|Map(?:ping)?\b|Tokeniz|Generating \w+ split|Saving|Casting|Creating"
    r"|Convert|Compil|Warm|Profil|Preprocess|Resolving|Unpack|Extract|Upload|Writing|Quantiz|Initializ|Packing|Applying"
    r"|Adding (?:EOS|requests)|Truncat|Shuffl|Formatting|Parsing|Processing (?:data|prompts|example))[^%|\n]{0,80}\d%"
)
"""The label of a bar over something that no step waits for: weights, graphs, a data set."""

_TRACEBACK = "Traceback (most recent call last)"
_FRAME = re.compile(r'^\s*File "[^"]+", line \d+|\bray::')
_CHAIN = re.compile(
    r"^\s{0,12}(?:→|->|=>) ?[A-Za-z_][\w.]*|^\s{0,12}[A-Z]\w*Worker\w*\.[a-z_]\w*(?:\(\))?\s*$"
    r"|^\s{0,12}[A-Za-z_][\w.]*\s+\([\w./-]+\.py:\d+"
)
"""A call of a chain that somebody wrote by hand: `→ get_logprobs   (model_utils.py:1383)`."""

_FRAME_LITERALS = ('File "', "ray::", "→", "->", "=>", "Worker", ".py:")
"""One of them is in every frame and every call of a chain."""

CHAIN_REACH = 12
"""Lines back from an error that such a chain may be away: an arrow further up is of something else. As far below an
out-of-memory text frames belong to it, where none are above."""

_CARETS = re.compile(r"[~^\s]*\^{3}[~^\s]*")
_PASSING = re.compile(r"\bin (?:_wrapped)?_call_impl\s*$")
"""Frames of `torch.nn.Module` that stand between any two modules and tell nothing."""

_LISTED = re.compile(r"[-dl](?:[-r][-w][-xsStT]){3}")
"""A line of `ls -l`: its digits are what it says, so that no two of them are one message."""

_OOM_GOES_ON = re.compile(
    r"^\W*(?:GPU \d|Memory on the node|has a total|of which|Including|this process|If reserved|\S* ?allocated"
    r"|Currently allocated|Requested\s+:|Device limit|Free \(according|PyTorch limit|:\s+[\d.]+ [GM]iB"
    r"|Of the allocated|(?:and |Process \d+ has )?[\d.]+ [KMGT]i?B (?:is (?:free|allocated|reserved)|memory in use)"
    r"|Tried to allocate|PyTorch, and|reserved (?:by|in total)|See documentation for|free;)"
)
_ERROR_GOES_ON = re.compile(r"^[\w.\[\]-]+\s*$|^\s+\S.*\[type=|^\s*For further information")
"""What pydantic prints below the number of its errors: a key, and what is wrong with it."""
_DIGITS = re.compile(r"\d+")


@final
@dataclass(kw_only=True, slots=True)
class _Kept:
    kind: ExcerptKind
    text: str
    line: int
    order: int
    """Line where it came first."""
    context: tuple[str, ...]
    count: int = 1

    def excerpt(self, path: str) -> Excerpt:
        origin = Origin(path=path, line=self.line, key=self.kind.value)
        return Excerpt(kind=self.kind, text=self.text, origin=origin, context=self.context, count=self.count)


@final
@dataclass(kw_only=True, slots=True)
class ExcerptCollector:
    """Takes clean lines of one file in order."""

    path: str
    _kept: dict[tuple[ExcerptKind, str], _Kept] = field(default_factory=dict[tuple[ExcerptKind, str], _Kept])
    _frames: deque[tuple[int, str]] = field(default_factory=lambda: deque[tuple[int, str]](maxlen=FRAMES_KEPT))
    _last_frame_line: int = 0
    """Number of the last line of a traceback: a frame, its code, or marks under it."""
    _open: tuple[int, tuple[ExcerptKind, str]] | None = None
    """Line of the last text that may go on, and its key: out of memory, or a schema's errors."""
    _bare: tuple[int, tuple[ExcerptKind, str]] | None = None
    """The same of the last out-of-memory text that came without frames: people paste the message first."""

    def take(self, number: int, text: str) -> None:
        """Keep the line if it says something."""
        text, is_error = split_prefix(text)
        if self._goes_on(number, text):
            return
        literals = _RECORD_LITERALS if _is_record(text) else _ALL_LITERALS
        if not is_error and not any(map(text.__contains__, literals)):
            self._take_code(number, text)
            return
        if self._take_notebook(number, text):
            return
        is_traceback = self._take_traceback(number, text)
        kind = _kind(text)
        if kind is None and is_error and text.strip() and not is_traceback:
            kind = ExcerptKind.ERROR
        if kind is None:
            return
        if kind is ExcerptKind.PROGRESS and _SETUP_BAR.search(text, 0, text.rfind("%") + 1):
            kind = ExcerptKind.EVENT
        text = text.strip()[:MAX_TEXT]
        key = (kind, text if _LISTED.match(text) else _DIGITS.sub("0", text))
        self._keep(key, number, text)
        goes_on = kind is ExcerptKind.OOM or (kind is ExcerptKind.ERROR and "validation error" in text)
        self._open = (number, key) if goes_on else None
        is_memory = kind is ExcerptKind.OOM or "_STATUS_" in text
        self._bare = (number, key) if is_memory and not self._kept[key].context else self._bare

    def excerpts(self) -> tuple[Excerpt, ...]:
        """Return what was kept, in the order of the file."""
        return tuple(kept.excerpt(self.path) for kept in sorted(self._kept.values(), key=lambda kept: kept.order))

    def _take_notebook(self, number: int, text: str) -> bool:
        """Keep a frame of a notebook in Python's own spelling; return whether the line is of its traceback."""
        if is_heading(text):
            self._frames.clear()
            return True
        frame = frame_in(text) if text[:1] in ("F", "/", "~", "<", "-") else None
        if frame is not None:
            self._add_frame(number, frame)
        return frame is not None

    def _take_traceback(self, number: int, text: str) -> bool:
        """Keep a frame or the code under it; return whether the line belongs to a traceback."""
        is_start = text.lstrip().startswith(_TRACEBACK)
        if is_start:
            self._frames.clear()
            self._bare = None
        if any(map(text.__contains__, _FRAME_LITERALS)) and (_FRAME.search(text) or _CHAIN.search(text)):
            if not _PASSING.search(text):
                self._add_frame(number, text)
            return True
        self._take_code(number, text)
        return is_start or text.startswith("    ")

    def _take_code(self, number: int, text: str) -> None:
        """The line of code under a frame, or under the marks of a frame that was cut out."""
        if _CARETS.fullmatch(text):
            self._last_frame_line = number
        elif self._last_frame_line == number - 1 and text.startswith("    ") and not is_neighbour(text):
            self._add_frame(number, text)

    def _add_frame(self, number: int, text: str) -> None:
        line, self._last_frame_line = text.strip()[:MAX_TEXT], number
        if line not in (other for _, other in islice(reversed(self._frames), _FRAMES_COMPARED)):
            self._frames.append((number, line))
            if self._bare is not None and number - self._bare[0] <= CHAIN_REACH:
                held = self._kept[self._bare[1]]
                held.context = (*held.context, line)

    def _keep(self, key: tuple[ExcerptKind, str], number: int, text: str) -> None:
        held = self._kept.get(key)
        kind = key[0]
        if held is not None:
            held.count += 1
            if kind in (ExcerptKind.MEMORY, ExcerptKind.PROGRESS):
                held.text, held.line = text, number
        else:
            self._make_room(kind)
            context = self._context(number) if kind in (ExcerptKind.OOM, ExcerptKind.ERROR) else ()
            self._kept[key] = _Kept(kind=kind, text=text, line=number, order=number, context=context)

    def _make_room(self, kind: ExcerptKind) -> None:
        """Of too many different messages the first ones stay, and the last ones: what ended the job is the last."""
        keys = [key for key in self._kept if key[0] is kind]
        if len(keys) >= MAX_EXCERPTS:
            del self._kept[keys[MAX_EXCERPTS - LAST_EXCERPTS]]

    def _goes_on(self, number: int, text: str) -> bool:
        """Join the next row of an out-of-memory text that was wrapped, or of a schema's list of errors."""
        if self._open is None or number != self._open[0] + 1:
            return False
        key = self._open[1]
        if not (_OOM_GOES_ON if key[0] is ExcerptKind.OOM else _ERROR_GOES_ON).search(text):
            return False
        held = self._kept[key]
        if held.count == 1:
            held.text = f"{held.text} {text.strip()}"[:MAX_TEXT]
        self._open = (number, key)
        return True

    def _context(self, number: int) -> tuple[str, ...]:
        near = ((line, text) for line, text in self._frames if 0 <= number - line <= FRAME_REACH)
        return tuple(text for line, text in near if number - line <= CHAIN_REACH or not _CHAIN.match(text))


def _kind(text: str) -> ExcerptKind | None:
    for kind, literals, pattern in _KINDS:
        if any(map(text.__contains__, literals)) and pattern.search(text):
            return kind
    return None


def _is_record(text: str) -> bool:
    if len(text) >= _LONG_LINE:
        return True
    return text.count("': ") >= _RECORD_PAIRS or text.count(" | ") >= _RECORD_PAIRS
