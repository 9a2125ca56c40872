"""Frameworks that a session can run: what each has as knobs, plans as work and launches."""
