"""Scores of forecasts: of our own against their trials, and of any step or memory model against public runs."""
