"""Holds a running job's log against the decision it runs under."""
