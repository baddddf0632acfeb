"""Threads of the exporter that are made when they are needed."""
