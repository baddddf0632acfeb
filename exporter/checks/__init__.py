"""Would `run` work on this machine, and what is missing?"""
