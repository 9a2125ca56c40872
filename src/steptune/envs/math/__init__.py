"""The math workload: problems, their tokens and the verifier."""
