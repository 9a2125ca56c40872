"""Two data-parallel trainer ranks: the second one computes gradients in a process of its own, the first one steps."""
