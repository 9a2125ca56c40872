"""The fully asynchronous schedule: a stream of groups, a buffer, and a bound on the age of what is trained on."""
