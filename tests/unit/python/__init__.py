"""Tests of exporter/python."""
