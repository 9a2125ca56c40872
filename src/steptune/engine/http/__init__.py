"""An OpenAI-compatible endpoint over the rollout engine, with token ids and log-probs. Standard library only."""

from steptune.engine.http.server import CompletionServer

__all__ = ["CompletionServer"]
