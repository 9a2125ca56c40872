"""Forecasts of runs that others published, from what their rows state: little is known, so the form is closed."""
