"""Totals by identity that never go back, and when a series ends."""
