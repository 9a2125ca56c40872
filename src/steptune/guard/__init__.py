"""Guards: did the faster run stay inside the owner's limits? One file each; `GUARDS` is the table of contents.

Every guard is a pure function of observations that returns a `Verdict`. Missing, NaN or too little data is
INCONCLUSIVE, never PASS. The health gate is not in the table: it refuses a baseline, it does not judge a change.
"""

from collections.abc import Callable

from steptune.core.verdict import Verdict
from steptune.guard import (
    entropy_guard,
    gap_growth,
    length_shift,
    memory,
    mismatch,
    off_policy,
    reward,
    reward_rate,
    same_work,
    steady,
    truncation,
    update_parity,
    weights_arrived,
)

GUARDS: dict[str, Callable[..., Verdict]] = {
    same_work.NAME: same_work.check_same_work,
    memory.NAME: memory.check_memory,
    mismatch.NAME: mismatch.check_mismatch,
    off_policy.NAME: off_policy.check_off_policy,
    steady.NAME: steady.check_steady,
    entropy_guard.NAME: entropy_guard.check_entropy,
    update_parity.NAME: update_parity.check_update_parity,
    weights_arrived.NAME: weights_arrived.check_weights_arrived,
    truncation.NAME: truncation.check_truncation,
    length_shift.NAME: length_shift.check_length,
    gap_growth.NAME: gap_growth.check_gap_growth,
    reward.NAME: reward.check_reward,
    reward_rate.NAME: reward_rate.check_reward_rate,
}
"""Every guard by its name in verdicts."""
