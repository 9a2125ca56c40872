"""What people and machines read: pages, texts, JSON and pictures of a run folder, or of an answer about a log."""
