"""Several rollout replicas: engines in processes of their own that share a batch's groups."""
