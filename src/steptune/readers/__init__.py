"""Logs of training frameworks become core records. No framework is imported: a log is text."""
