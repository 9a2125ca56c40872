"""Models in and out in Hugging Face's format: `config.json` beside safetensors. Needs the package `safetensors`."""

from steptune.engine.hf.load import load_model
from steptune.engine.hf.save import save_model

__all__ = ["load_model", "save_model"]
