"""Device facts as data, each with its source; an unknown device is None, never a guess."""
