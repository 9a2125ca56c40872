"""Where a step's rollouts come from: the trainer's own process, one step ahead, or a stream of bounded age."""
