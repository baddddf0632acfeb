"""Demos: training jobs with a known fault, recorded or live, and what the exporter reports about them."""
