"""Decisions: pure functions from measurements and verdicts to outcomes with reasons. No I/O, no clock."""
