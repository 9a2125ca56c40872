"""torchforge: blocks `=== [process] - METRICS STEP N ===` of sorted `key: value` lines."""
