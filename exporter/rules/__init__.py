"""Prometheus rules generated from GPU prices."""
