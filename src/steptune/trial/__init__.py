"""Stage: a real run of the changed job against the incumbent, block by block."""
