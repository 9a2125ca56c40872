"""Layer inputs that wait for the backward pass outside the device's memory, and come back ahead of their use."""
