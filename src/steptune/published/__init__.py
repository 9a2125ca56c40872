"""Public facts as data, each row with its source: measured runs, framework keys and knobs."""
