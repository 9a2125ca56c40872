"""The cards of a report, one file each: what the journal says about one question."""
