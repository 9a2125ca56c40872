import doctest

from steptune.diagnose import durations


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(durations).failed == 0


def test_from_to() -> None:
    assert durations.from_to(32423, 12863) == "9 h 00 m to 3 h 34 m"
