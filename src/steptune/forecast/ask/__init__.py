"""Questions to the step model about a pasted log: other device counts, an asynchronous schedule, a whole space."""
