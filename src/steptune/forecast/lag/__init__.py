"""How old tokens will be when they are trained on: P(lag = k) of a plan, priced like its step."""
