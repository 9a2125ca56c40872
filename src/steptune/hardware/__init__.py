"""Device facts as data, each with its source; an unknown device is an error, never a guess."""
