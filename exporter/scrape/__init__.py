"""Reads an exporter's /metrics: fetch, parse, and rates between two scrapes."""
