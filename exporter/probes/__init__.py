"""Which library files are probed, and how often kernel launches are timed."""
