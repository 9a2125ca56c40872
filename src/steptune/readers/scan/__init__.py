"""From bytes on disk to the few lines worth reading, at flat memory."""
