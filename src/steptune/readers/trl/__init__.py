"""TRL, and what prints like it (open-r1, Unsloth): a dict per logged step between tqdm bars, DeepSpeed timers."""
