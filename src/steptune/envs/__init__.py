"""Environments: what a policy is asked and how its answer is judged. No torch."""
