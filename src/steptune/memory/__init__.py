"""Out-of-memory texts: which phase, how much, and the smallest remedy that keeps the maths."""
