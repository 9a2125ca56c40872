"""When tuning has paid for itself, in steps of the tuned job."""

import math


def break_even_step(*, baseline_step_s: float, tuned_step_s: float, cost_wall_s: float) -> int | None:
    """Return the smallest n with n · (baseline - tuned) >= cost, all in seconds; None if that never comes.

    A tuned step that is not faster, and any value that is not finite, never pays.
    """
    saved_s = baseline_step_s - tuned_step_s
    if not (0 < saved_s < math.inf and 0 <= cost_wall_s < math.inf):
        return None
    return math.ceil(cost_wall_s / saved_s)
