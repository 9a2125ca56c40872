"""The nearest values that make a rule, and every other fault rule, content.

Near values are tried one by one, because divisibility has no order. Far ones are reached by doubling steps and then
halving the gap: only limits (a token budget below a sequence) are that far away, and a limit once met stays met.
"""

from collections.abc import Callable

from steptune.lint.view import View

NEAR = 256
"""Values tried one by one in each direction: more than any data-parallel size that has to divide a batch."""

MAX_FACTOR = 64
"""How many times the present value is still a nudge; further away the configuration needs another thought."""


def nearest_values(name: str, view: View, is_valid: Callable[[View], bool]) -> tuple[int, ...]:
    """Return the closest valid value below and above the present one (each only if there is one), nearest first."""
    now = view.value(name)
    if not isinstance(now, int) or isinstance(now, bool) or now < 1:
        return ()

    def is_good(value: int) -> bool:
        return is_valid(view.replaced(name, value))

    below = next((value for value in range(now - 1, max(0, now - NEAR), -1) if is_good(value)), None)
    above = next((value for value in range(now + 1, now + NEAR) if is_good(value)), None)
    found = [
        value for value in (below, above or _far_above(now + NEAR, now * MAX_FACTOR, is_good)) if value is not None
    ]
    return tuple(sorted(found, key=lambda value: abs(value - now)))


def _far_above(start: int, limit: int, is_good: Callable[[int], bool]) -> int | None:
    bad, good, step = start - 1, start, NEAR
    while not is_good(good):
        bad, good, step = good, good + step, 2 * step
        if good > limit:
            return None
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (bad, middle) if is_good(middle) else (middle, good)
    return good
