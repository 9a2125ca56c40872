"""Parsing that several frameworks' logs need: dict reprs, progress bars, durations, tables, pipes, merging by step."""
