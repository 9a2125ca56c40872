"""The step model as the design draws it: roles on devices, a long tail, a queue between them. Pure Python."""
