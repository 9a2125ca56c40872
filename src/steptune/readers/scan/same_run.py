"""Do two files tell of one run? The values of the steps that both count decide.

Two logs of one run agree in nearly every digit that both print; two runs share their learning rate and little else.
Surprise: a job that was resumed tells its last steps twice, in two files and with other values, and is one job; so an
overlap that is short against both files says nothing.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from typing import final

from steptune.readers.reading import Gauge
from steptune.readers.scan.agree import agree, has_digits
from steptune.readers.step import Reading, StepRecord

MAX_SAMPLES = 64
"""Steps of one file that are kept for comparison, evenly spread over it."""

MAX_NUMBERS = 100_000
"""Step numbers of one file that are kept, to count what two files share."""

SAME_FRAC = 0.5
"""Agreeing part of the compared values from which two files are one run. Copies reach 0.9 to 1, other runs of the same
configuration 0 to 0.2 (their learning rate)."""

MIN_COMPARED = 4
"""Values that must be there to call two files different jobs."""

OF_LEARNING = frozenset(
    ("reward", "reward_std", "loss", "grad_norm", "entropy", "kl_ref", "completion_mean", "prompt_mean")
)
"""Canonical names of what the policy does, of which a job has one value a step. Clocks, throughput and memory it has
one of for every actor: trainer and orchestrator of prime-rl write both `time/step` into a `metrics.jsonl` of their
own."""

MIN_KEYS = 3
"""Different metrics that must differ where none of them is of learning."""

SET_BY_THE_JOB = frozenset(("lr", "completion_max", "padded_len", "async_level"))
"""Canonical names of what the configuration says, or bounds: runs of one configuration share it."""

EPOCH = "epoch"
"""What trainers without a step number log: where in the data a step stands."""

PER_EPOCH = 10**9
"""Places in an epoch that are told apart; also where they begin, far from the places in a file."""

MAX_EPOCHS = 10**6
"""Epochs above which the number is none."""

LONG_OVERLAP_FRAC = 0.5
"""Part of the shorter file that the shared steps span where two files tell of the same stretch of training."""


class Kinship(Enum):
    """What two files are to each other."""

    SAME_RUN = "same run"
    """Both tell the same steps."""
    OTHER_JOB = "other job"
    """They tell different values of the same steps."""
    UNKNOWN = "unknown"
    """Nothing to compare: one may be the other's configuration, its continuation, or another actor's log."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two files: ``Pair(first="a.log", second="b.log", kinship=..., num_compared=24, num_agreeing=0)``."""

    first: str
    second: str
    kinship: Kinship
    num_compared: int
    num_agreeing: int


@final
@dataclass(kw_only=True, slots=True)
class FileSteps:
    """The steps of one file: every number, and the readings of a few, those whose number is a multiple of `stride`.

    A step without a number stands at its epoch, counted downwards from `-PER_EPOCH`; without one at its place in the
    file, counted downwards from -1.
    """

    numbers: set[int] = field(default_factory=set[int])
    samples: dict[int, Mapping[str, Reading]] = field(default_factory=dict[int, Mapping[str, Reading]])
    stride: int = 1
    num_seen: int = 0
    has_unnumbered: bool = False

    def add(self, record: StepRecord, keys: Set[str]) -> None:
        """Take one step in; the stride doubles whenever there are too many, so that files keep common multiples."""
        self.num_seen += 1
        number = self._place(record)
        if len(self.numbers) < MAX_NUMBERS:
            self.numbers.add(number)
        if number % self.stride == 0 and number not in self.samples:
            self.samples[number] = {key: record.readings[key] for key in keys & record.readings.keys()}
        while len(self.samples) > MAX_SAMPLES:
            self.stride *= 2
            self.samples = {number: held for number, held in self.samples.items() if number % self.stride == 0}

    def _place(self, record: StepRecord) -> int:
        if record.number is not None:
            return record.number
        self.has_unnumbered = True
        epoch = record.value(EPOCH)
        is_known = epoch is not None and 0 <= epoch < MAX_EPOCHS
        return -PER_EPOCH - round(epoch * PER_EPOCH) if epoch is not None and is_known else -self.num_seen


@final
@dataclass(kw_only=True, slots=True)
class RunWatch:
    """Sees every step on its way to the keeper, and says afterwards which files are of one run."""

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys that are compared, with their canonical names."""
    files: dict[str, FileSteps] = field(default_factory=dict[str, FileSteps])

    def see(self, record: StepRecord) -> None:
        """Take one step in."""
        self.files.setdefault(record.path, FileSteps()).add(record, self.names.keys())

    def pairs(self) -> Iterator[Pair]:
        """Yield every two files and what they are to each other, the one with more steps first."""
        ordered = sorted(self.files, key=lambda path: -self.files[path].num_seen)
        for first, second in combinations(ordered, 2):
            yield self._pair(first, second)

    def _pair(self, first: str, second: str) -> Pair:
        a, b = self.files[first], self.files[second]
        compared = list(_compared(a, b))
        num_agreeing = sum(agrees for _, agrees in compared)
        kinship = Kinship.UNKNOWN
        if compared and num_agreeing >= SAME_FRAC * len(compared):
            kinship = Kinship.SAME_RUN
        elif len(compared) >= MIN_COMPARED and self._tells({key for key, _ in compared}):
            kinship = Kinship.OTHER_JOB if _is_one_stretch(a.numbers, b.numbers) else Kinship.UNKNOWN
        return Pair(first=first, second=second, kinship=kinship, num_compared=len(compared), num_agreeing=num_agreeing)

    def _tells(self, keys: Set[str]) -> bool:
        return len(keys) >= MIN_KEYS or any(self.names[key] in OF_LEARNING for key in keys)

    def retold(self) -> dict[str, str]:
        """Return the files whose run another file tells, with the one that counts."""
        found: dict[str, str] = {}
        for pair in self.pairs():
            if pair.kinship is Kinship.SAME_RUN and pair.first not in found:
                found.setdefault(pair.second, pair.first)
        return found

    def num_retold(self) -> int:
        """Return how many steps were seen a second time."""
        pairs = ((self.files[again], self.files[first]) for again, first in self.retold().items())
        return sum(a.num_seen if a.has_unnumbered else len(a.numbers & b.numbers) for a, b in pairs)


def watch_for(series: Mapping[str, Gauge]) -> RunWatch:
    """Return a watch over the metrics that differ from run to run, of a framework's ``series``."""
    return RunWatch(names={key: gauge.name for key, gauge in series.items() if gauge.name not in SET_BY_THE_JOB})


def without_retold(records: Sequence[StepRecord], watch: RunWatch) -> list[StepRecord]:
    """Return the steps without those that the file with more of them tells too."""
    retold = watch.retold()

    def is_retold(record: StepRecord) -> bool:
        if record.path not in retold:
            return False
        return record.number is None or record.number in watch.files[retold[record.path]].numbers

    return [record for record in records if not is_retold(record)]


def _compared(a: FileSteps, b: FileSteps) -> Iterator[tuple[str, bool]]:
    """Yield the key of every value that both files tell of a step, and whether they agree."""
    for number in a.samples.keys() & b.samples.keys():
        for key, held in a.samples[number].items():
            other = b.samples[number].get(key)
            if other is not None and has_digits(held) and has_digits(other):
                yield key, agree(held, other)


def _is_one_stretch(a: set[int], b: set[int]) -> bool:
    """Whether both count the same stretch of training: places in a file are no step numbers, they may be cut off."""
    if any(-PER_EPOCH < number < 0 for number in (*a, *b)):
        return False
    start, end = max(min(a), min(b)), min(max(a), max(b))
    shorter = min(max(a) - min(a), max(b) - min(b))
    return end >= start and (end - start) >= LONG_OVERLAP_FRAC * shorter
