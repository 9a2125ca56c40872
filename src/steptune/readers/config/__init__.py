"""Configuration readers: launch scripts, YAML, TOML, JSON, Python and printed dumps become `Setting` records."""
