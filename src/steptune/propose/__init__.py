"""Changes that keep the work and the limits, the price of each limit, and which change to try next."""
