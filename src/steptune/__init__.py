"""steptune makes every RL post-training step faster and shows that training stayed inside its owner's limits."""

__version__ = "0.1.0"
