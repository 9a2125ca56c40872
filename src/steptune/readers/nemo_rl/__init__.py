"""NeMo RL: console blocks `Training Results`, `Timing`, `Performance Metrics` of synchronous and async GRPO."""
