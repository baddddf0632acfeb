"""Diagnostics of this machine for a bug report, in one tar.gz without secrets and names of workloads."""
