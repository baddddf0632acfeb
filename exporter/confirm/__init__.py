"""Proof by intervention: whoever is to blame is held for two seconds, and the job's steps say whether that helps."""
