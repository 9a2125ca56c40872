"""Device facts as data, each with its source; an unknown device is refused or None, never a guess."""
