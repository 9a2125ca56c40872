"""Which commands of a script run: `if`, `case`, `&&` and `||`, as far as known values decide.

Three answers: True, False, and None where a value is unknown (a probed device, a caller's argument); what an
undecided branch assigns is then unresolved instead of guessed.

    if A && B; then      condition: tests joined until `then`
      ...                runs if True, is undecided if None
    else ... fi
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import final

from steptune.readers.config.shell_conditions import both, either, holds, negate
from steptune.readers.config.shell_words import Command, Word

Runs = bool | None
"""Whether something runs; None: unknown."""

MAX_DEPTH = 50
"""Branches inside branches that are followed."""

_LEADING = frozenset({"do", "{", "(", "time", "exec", "eval", "nohup", "sudo", "command"})
_ALONE = frozenset({"done", "}", ")", "for", "while", "until", "function", "select"})


@final
@dataclass(kw_only=True, slots=True)
class _If:
    """An open `if`."""

    runs: Runs = None
    """Its present branch."""
    none_before: Runs = True
    """Whether no earlier branch ran."""


@final
@dataclass(kw_only=True, slots=True)
class _Case:
    """An open `case`; it waits for a pattern, then runs one branch up to ``;;``."""

    word: Word
    patterns: list[str] = field(default_factory=list[str])
    is_waiting: bool = True
    runs: Runs = False
    none_before: Runs = True


@final
@dataclass(kw_only=True, slots=True)
class Flow:
    """Follows the control flow, command by command."""

    open: list[_If | _Case] = field(default_factory=list["_If | _Case"])
    tests: list[tuple[Runs, str]] | None = None
    """The condition of an `if` being read: each test with the operator after it."""
    chain: Runs = True
    """Whether the next command of an ``a && b`` list runs."""

    def step(self, command: Command) -> tuple[list[Word], Runs]:
        """Return the words left to execute (none for pure control flow) and whether they run."""
        words = list(command.words)
        case = self.open[-1] if self.open else None
        if isinstance(case, _Case) and case.is_waiting and not (words and words[0].text == "esac"):
            words = self._take_pattern(case, words, command.ended_by)
        words = self._take_keywords(words, command.ended_by)
        runs = both(self._context(), self.chain) if self.tests is None else False
        self._advance_chain(words, command.ended_by)
        if command.ended_by == ";;" and isinstance(case, _Case):
            case.is_waiting = True
        return words, runs

    def _context(self) -> Runs:
        runs: Runs = True
        for branch in self.open:
            runs = both(runs, branch.runs)
        return runs

    def _take_keywords(self, words: list[Word], ended_by: str) -> list[Word]:
        """Take leading keywords; an empty answer means the command was nothing else."""
        while words and not words[0].is_quoted:
            first = words[0].text
            if first == "case" and len(words) > 1:
                case = _Case(word=words[1])
                self.open = [*self.open[-MAX_DEPTH:], case]
                return self._take_pattern(case, words[3:], ended_by)
            if first in _ALONE:
                return []
            if not self._take_keyword(first) and first not in _LEADING:
                break
            words = words[1:]
        if self.tests is not None and words:
            self.tests.append((holds(words), ended_by))
            return []
        return words

    def _take_keyword(self, first: str) -> bool:
        """Open, switch or close a branch; say whether ``first`` was a keyword that does."""
        if first in ("if", "elif"):
            self.tests = []
            if first == "if" and len(self.open) < MAX_DEPTH:
                self.open.append(_If())
        elif first == "then":
            self._decide()
        elif first == "else":
            self._switch(True)
        elif first in ("fi", "esac"):
            self.open = self.open[:-1]
        else:
            return False
        return True

    def _decide(self) -> None:
        """Judge the condition that has been read."""
        known: Runs = True
        operator = "&&"
        for value, following in self.tests or [(None, ";")]:
            known = both(known, value) if operator == "&&" else either(known, value)
            operator = following
        self.tests = None
        self._switch(known)

    def _switch(self, known: Runs) -> None:
        last = self.open[-1] if self.open else None
        if isinstance(last, _If):
            last.runs = both(last.none_before, known)
            last.none_before = both(last.none_before, negate(known))

    def _take_pattern(self, case: _Case, words: list[Word], ended_by: str) -> list[Word]:
        """Collect ``a|b)``; the branch below runs when one of them matches."""
        case.patterns += [word.text for word in words if word.text != "("]
        if ended_by == ")":
            known = any(fnmatchcase(case.word.text, p) for p in case.patterns) if case.word.is_resolved else None
            case.runs = both(case.none_before, known)
            case.none_before = both(case.none_before, negate(known))
            case.patterns = []
            case.is_waiting = False
        return []

    def _advance_chain(self, words: list[Word], ended_by: str) -> None:
        """Say whether the next command of the list runs: after a test it depends, after anything else it does."""
        is_test = bool(words) and words[0].text in ("[", "[[", "!")
        if ended_by not in ("&&", "||"):
            self.chain = True
        elif is_test:
            known = holds(words)
            self.chain = both(self.chain, known) if ended_by == "&&" else both(self.chain, negate(known))
        elif ended_by == "||":
            self.chain = negate(self.chain) if words else self.chain
