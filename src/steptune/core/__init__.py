"""The vocabulary: frozen records and protocols. No I/O, no torch, no verbs."""
