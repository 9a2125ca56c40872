"""How long a backward pass with reloads takes, for equal layers: c seconds of compute and m of copying each.

Serial ``N (c + m)``; overlapped ``m + c + (N - 1) max(c, m)``: the first copy and the last layer are exposed, in
between the longer of the two rules. With a kept layer on top its backward pass hides the first copy:
``c + N max(c, m)``. One slot beyond the running layer is enough for that; a deeper prefetch only buys room for
layers of unequal length.
"""


def serial_s(num_copies: int, *, compute_s: float, copy_s: float) -> float:
    """Return the seconds when no copy runs beside a layer, and every layer's input is copied."""
    return num_copies * (compute_s + copy_s)


def overlapped_s(num_copies: int, *, compute_s: float, copy_s: float, num_kept: int = 0) -> float:
    """Return the seconds when every copy that can be is hidden; ``num_kept`` is 0 or 1."""
    assert num_kept in (0, 1), "with more kept layers the head start depends on the slots"
    if num_copies == 0:
        return num_kept * compute_s
    slower = max(compute_s, copy_s)
    if num_kept == 1:
        return compute_s + num_copies * slower
    return copy_s + compute_s + (num_copies - 1) * slower
