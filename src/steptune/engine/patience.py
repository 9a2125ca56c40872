"""How long a process that shares work with another one waits for it before it counts as hung."""

MIN_PATIENCE_S = 120.0
"""Seconds waited, the own part done, before the other one counts as hung. The first wait holds the start of a process
that loads torch: about 3 seconds here, 20 on a machine that does much else (2026-11-30)."""

PATIENCE_FACTOR = 20.0
"""Waits up to this many times the own part are patience too: the other one has about as much to do."""

SMALL_PARAMETERS = 4e6
"""Parameters up to which `MIN_PATIENCE_S` is enough for the first groups of a rollout that nobody has timed yet; above,
patience grows with size, as work does (as `adapters.embedded.session` has it)."""
