"""Stage: a JobSpec and a Framework become a Profile with its noise floor."""
