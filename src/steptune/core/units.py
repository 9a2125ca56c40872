"""The only place where units are converted. Tera is 1e12; binary sizes say so."""

BYTES_PER_MIB = 1024**2
"""Bytes in one mebibyte."""

BYTES_PER_GIB = 1024**3
"""Bytes in one gibibyte."""

MS_PER_S = 1000.0
"""Milliseconds in one second."""

LONGEST_SAID_S = 1e10
"""Seconds, three centuries, from which a duration is no longer said in hours: a damaged log can hold any number."""


def mib(num_bytes: float) -> float:
    """Return ``num_bytes`` in MiB."""
    return num_bytes / BYTES_PER_MIB


def gib(num_bytes: float) -> float:
    """Return ``num_bytes`` in GiB."""
    return num_bytes / BYTES_PER_GIB


def duration_text(seconds: float) -> str:
    """Return a duration as people say it.

    >>> duration_text(0.0421), duration_text(7.25), duration_text(203), duration_text(32400)
    ('42 ms', '7.25 s', '3 m 23 s', '9 h 00 m')
    >>> duration_text(1e308), duration_text(float("inf"))
    ('1e+308 s', 'inf s')
    """
    if not seconds < LONGEST_SAID_S:
        return f"{seconds:.3g} s"
    if round(seconds * MS_PER_S) < MS_PER_S:
        return f"{seconds * MS_PER_S:.0f} ms"
    if round(seconds, 2) < 60:
        return f"{seconds:.2f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest_s:02d} s"
    hours, rest_m = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest_m:02d} m"
