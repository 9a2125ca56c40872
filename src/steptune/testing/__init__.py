"""The shipped test kit: a fake framework whose best configuration is known."""
