"""OpenRLHF: dicts `Global step N: {...}` and the `Episode [i/n]` progress bar."""
