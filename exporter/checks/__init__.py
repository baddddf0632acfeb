"""Whether `run` can start on this machine, and what would be missing: a module of checks for each subject."""
