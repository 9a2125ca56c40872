import math

import pytest

from steptune.stats.finite import finite_or_none, require_finite


@pytest.mark.parametrize("broken", [None, math.nan, math.inf, -math.inf])
def test_one_broken_value_refuses_all(broken: float | None) -> None:
    assert finite_or_none([1.0, broken, 2.0]) is None
    with pytest.raises(ValueError, match="at least 1 finite"):
        require_finite([1.0, broken], at_least=1)


def test_finite_values_come_back_as_floats_in_order() -> None:
    assert finite_or_none([3, 1.5]) == (3.0, 1.5)
    assert require_finite([3, 1.5], at_least=2) == (3.0, 1.5)


def test_too_few_values_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        require_finite([1.0], at_least=2)
