"""Flight recorder: the rows of the last minute around a chain, in files that can be replayed."""
