"""Groups that are begun, decoded side by side and leave one by one: rollout without batches."""
