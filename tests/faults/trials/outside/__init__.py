"""Faults and decoys from outside of a job, by subject."""
