"""Tests of exporter/hostmetrics."""
