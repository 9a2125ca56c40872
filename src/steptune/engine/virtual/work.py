"""What a virtual cluster has to do: groups of rows with known lengths and tool calls, step after step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A wait of ``seconds`` after ``at_token`` completion tokens."""

    at_token: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RowWork:
    """One rollout: ``RowWork(completion=37)``."""

    completion: int
    """Tokens to generate, at least 1."""
    tools: tuple[ToolCall, ...] = ()
    """In order of `at_token`, each before the last token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupWork:
    """The rollouts of one prompt."""

    prompt: int
    rows: tuple[RowWork, ...]
    predicted: float
    """Completion tokens of the whole group as a predictor has it; routing may use nothing else."""

    @property
    def num_tokens(self) -> int:
        """Completion tokens in truth."""
        return sum(row.completion for row in self.rows)


@final
@dataclass(kw_only=True, slots=True)
class Group:
    """A group on its way through the cluster."""

    index: int
    work: GroupWork
    num_left: int
    start_version: int | None = None
    """Weights of its oldest token; None before the first."""

    @property
    def is_done(self) -> bool:
        """Whether every row has ended."""
        return self.num_left == 0


@final
@dataclass(kw_only=True, slots=True)
class Row:
    """A rollout in a replica."""

    group: Group
    work: RowWork
    generated: int = 0
    num_tools_done: int = 0
    kv_tokens: int = 0
    """Tokens it holds in the cache; 0 while it waits."""

    @property
    def next_tool(self) -> ToolCall | None:
        """Return the tool call that is due now, or None."""
        if self.num_tools_done < len(self.work.tools):
            call = self.work.tools[self.num_tools_done]
            return call if call.at_token == self.generated else None
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Every step's groups; after the last step they repeat."""

    steps: Sequence[Sequence[GroupWork]]
    max_completion: int
    """Tokens a completion may have: no row is longer, and a reservation must hold it."""
    _groups: list[GroupWork] = field(init=False, default_factory=list[GroupWork])

    def __post_init__(self) -> None:
        self._groups.extend(group for step in self.steps for group in step)
        if len({len(step) for step in self.steps}) != 1:
            raise ValueError("every step needs the same number of groups, at least one step is needed")
        longest = max(row.completion for group in self._groups for row in group.rows)
        if longest > self.max_completion:
            raise ValueError(f"a completion of {longest} tokens exceeds the limit of {self.max_completion}")

    @property
    def groups_per_step(self) -> int:
        """Groups that make one batch."""
        return len(self.steps[0])

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row possible."""
        return self.max_completion + max(group.prompt for group in self._groups)

    def group(self, index: int) -> Group:
        """Return the group with this number, fresh."""
        work = self._groups[index % len(self._groups)]
        return Group(index=index, work=work, num_left=len(work.rows))
