"""Prometheus rules made from GPU prices."""
