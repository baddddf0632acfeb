"""Outputs of a Snapshot: text and protobuf for scrapes, the web server that serves them, and OTLP pushes."""
