"""Makes `reader_logs` and `fixture_steps` importable from the folders below."""
