"""Named causes of a slow step, each with its evidence and the ceiling of removing it."""
