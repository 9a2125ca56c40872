"""What a model's published `config.json` says of its size and cost; a model that is not known is refused."""
