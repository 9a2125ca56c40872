"""The session: profile, search, prove, decide, within a budget; every step of it can be resumed."""
