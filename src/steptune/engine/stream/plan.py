"""How a stream is run, and at how many free slots it takes more rows."""

from dataclasses import dataclass

from steptune.engine.generation import ADMIT_FRAC
from steptune.engine.knobs import Dispatch


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPlan:
    """How a stream is run."""

    num_slots: int
    """Rows decoding at once."""
    num_rows: int
    """Rows of all groups that may be in the making at once, finished ones of unfinished groups included."""
    group_size: int
    """Slots are refilled by whole groups: a group in two parts would have its prompt computed twice."""
    max_completion_len: int
    seed: int
    is_forced: bool
    share_prefill: bool
    with_raw: bool
    """Raw log-probs are recorded too (temperature is not 1)."""
    with_routes: bool
    moe_dispatch: Dispatch
    pad_id: int
    eos_ids: tuple[int, ...]
    num_tokens: int
    context_len: int | None

    @property
    def admit_at(self) -> int:
        """Free slots at which rows are admitted: one by one, every finished row would cost a forward."""
        return max(1, int(self.num_slots * ADMIT_FRAC))

    @property
    def whole_group(self) -> int:
        """Slots that a group takes at its begin; all of them where it has more rows."""
        return min(self.group_size, self.num_slots)

    @property
    def refill_at(self) -> int:
        """Free slots at which more groups are begun."""
        return max(self.admit_at, self.whole_group)
