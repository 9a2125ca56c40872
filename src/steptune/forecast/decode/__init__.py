"""Seconds between two tokens under another layout, number of sequences or length, from three measured points."""
