"""A virtual cluster: measured pieces of real work on a clock of 8 to 64 invented devices, never wall time."""
