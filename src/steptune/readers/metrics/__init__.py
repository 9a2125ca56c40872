"""Metrics files of loggers (JSONL, W&B, TensorBoard, Trackio, Hugging Face) become step records."""
