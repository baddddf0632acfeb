"""The bundle for a bug report."""
