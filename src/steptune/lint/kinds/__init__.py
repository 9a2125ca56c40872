"""One file per kind of rule: what makes it fire."""
