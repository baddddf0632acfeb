"""Confirmation of a chain by an experiment: its culprits are paused for two seconds while the job's steps are measured."""
