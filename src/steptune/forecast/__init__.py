"""Step time of a change before it is tried: calibrated on the profile, corrected by trials, with its interval."""
