"""Parts of `bench/verdicts.py`."""
