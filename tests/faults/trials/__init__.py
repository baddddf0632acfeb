"""Trials: jobs of many shapes, each with one fault or decoy that a seed has chosen; what the engine reports, and what is true.

`python -m tests.faults.trials` runs them. plan.py chooses, trial.py runs one and records it, truth.py says what the job's own
step log shows, score.py compares. outside/ has the faults that come from other programs and from limits.
"""
