"""Pure statistics on plain floats: intervals, noise floor, power, trend. Standard library only.

Every function here raises `ValueError` on missing, NaN or too few values; whoever may meet those (a guard, a
decision) asks `finite_or_none` first and answers INCONCLUSIVE.
"""
