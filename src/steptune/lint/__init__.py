"""Rules the frameworks do not enforce, checked before anything runs.

A rule is a row of ``rules/<framework>.toml``: what makes it fire (one of the kinds, a file each under ``kinds``), the
sentence, why, whether the framework itself would stop the job, and the source. To add one: a row, and a case in
``tests/lint/suite/<framework>.toml`` with a fault it must find and a near miss it must leave alone; then run
``bench/lint_suite.py`` over the shipped examples.

    Paste -> View (values by name, unknown stays unknown) -> rules -> Hit -> Finding with nearest valid values
"""
