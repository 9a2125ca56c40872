"""TODO one line."""
