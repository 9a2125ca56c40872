"""Files: job files in, run folders in and out. Everything a session must not lose passes through here."""
