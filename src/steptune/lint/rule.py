"""What a rule is: data with a source, read from ``rules/<framework>.toml``.

A rule names configuration values by short names (`Name`), never by keys: one name may have several spellings over
versions. What makes it fire is its `check`, one of a few kinds with a file each under ``kinds``.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.finding import Severity
from steptune.core.records import Record
from steptune.lint.formula import Scalar

Refusal = Literal["at start", "after setup", "never"]
"""When the framework itself stops such a job: before models are loaded, after minutes of setup, or not at all."""


class Name(Record):
    """A quantity that rules speak of: a key in its spellings, or a formula over other names.

    Example: ``Name(keys=("data.train_batch_size", "train_batch_size"))`` or
    ``Name(formula="num_nodes * gpus_per_node")``.
    """

    keys: tuple[str, ...] = ()
    """Spellings, the current one first; also how people abbreviate it in posts."""
    formula: str = ""
    """Over other names; used when no key is set."""
    default: Scalar = None
    """What the framework takes when the key is not set."""
    default_if: str = ""
    """Condition under which the default may be believed; a paste may hold only part of a configuration."""


class Divides(Record):
    """Fires when ``value`` is not a multiple of ``by``."""

    kind: Literal["divides"] = "divides"
    value: str
    by: str


class AtMost(Record):
    """Fires when ``value`` is above ``limit``."""

    kind: Literal["at_most"] = "at_most"
    value: str
    limit: str


class Equal(Record):
    """Fires when ``value`` differs from ``to``."""

    kind: Literal["equal"] = "equal"
    value: str
    to: str


class InRange(Record):
    """Fires for each of ``names`` that is a number outside the range, NaN included."""

    kind: Literal["in_range"] = "in_range"
    names: tuple[str, ...]
    low: float
    high: float = float("inf")
    is_low_allowed: bool = True
    is_whole: bool = False
    """True when only whole numbers make sense."""


class Together(Record):
    """Fires when every condition of ``all_of`` is known to hold."""

    kind: Literal["together"] = "together"
    all_of: tuple[str, ...]


class Ignored(Record):
    """Fires for each of ``names`` that the user set though nothing reads it."""

    kind: Literal["ignored"] = "ignored"
    names: tuple[str, ...]
    active: str = ""
    """Name of the key that counts instead."""


class Missing(Record):
    """Fires when none of ``names`` is set."""

    kind: Literal["missing"] = "missing"
    names: tuple[str, ...]


class Renamed(Record):
    """Fires once when keys among ``keys`` are set, which maps an old spelling to the new one."""

    kind: Literal["renamed"] = "renamed"
    keys: dict[str, str]


class Changed(Record):
    """Fires once when set keys are in the published table of changes with one of ``kinds``."""

    kind: Literal["changed"] = "changed"
    kinds: tuple[str, ...] = ("renamed", "removed", "deprecated")


class Noted(Record):
    """Fires for each reader's note that holds ``says``."""

    kind: Literal["noted"] = "noted"
    says: str


class DebugSwitch(Record):
    """Fires for each environment variable that has one of the values listed for it."""

    kind: Literal["debug_switch"] = "debug_switch"
    values: dict[str, tuple[str, ...]]


class Misspelt(Record):
    """Fires for a key no version of the framework knows, when a known key is one slip away."""

    kind: Literal["misspelt"] = "misspelt"
    prefixes: tuple[str, ...] = ()
    """Hydra prefixes that make the framework accept anything; empty: every key."""


class Repeated(Record):
    """Fires for a key written twice in one layer with two different values: the last one counts."""

    kind: Literal["repeated"] = "repeated"


class Allocation(Record):
    """Fires when an AReaL allocation string needs other GPUs than there are."""

    kind: Literal["allocation"] = "allocation"
    names: tuple[str, ...]
    num_gpus: str


Check = Annotated[
    Divides
    | AtMost
    | Equal
    | InRange
    | Together
    | Ignored
    | Missing
    | Renamed
    | Changed
    | Noted
    | DebugSwitch
    | Misspelt
    | Repeated
    | Allocation,
    Field(discriminator="kind"),
]


class Adjust(Record):
    """A value to look for the nearest valid ones of: ``Adjust(name="micro_batch", same_algorithm=True)``."""

    name: str
    same_algorithm: bool
    """Whether other values of it train the same thing."""


class Fix(Record):
    """A remedy that needs no search.

    Example: ``Fix(text="drop the old key", set={"micro_batch": "2"}, same_algorithm=True)``.
    """

    text: str
    set: dict[str, str] = {}
    """Name to new value; a formula over names, or text in quotes."""
    same_algorithm: bool = True


class Rule(Record):
    """One rule.

    Example: ``verl/mini_above_batch``: ``ppo_mini_batch_size`` above ``train_batch_size`` makes one short update.
    """

    id: str
    """Stable; the finding's code is ``lint/<framework>/<id>``."""
    severity: Severity
    check: Check
    when: tuple[str, ...] = ()
    """Conditions that must all be known to hold before the check is made."""
    message: str
    """One sentence; ``{name}`` stands for a value, ``{key}`` and ``{got}`` for the key that a list check found."""
    why: str
    """What happens, and whether the framework stops it."""
    refused: Refusal
    source: str
    """``owner/repo@commit path`` or an issue's link."""
    adjust: tuple[Adjust, ...] = ()
    fixes: tuple[Fix, ...] = ()


class RuleSet(Record):
    """All rules of one framework."""

    framework: str
    names: dict[str, Name] = {}
    rules: tuple[Rule, ...] = ()
