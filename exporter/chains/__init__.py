"""Detects causal chains in lost time: baselines, change points, verdicts, episodes; pure, the time is an argument."""
