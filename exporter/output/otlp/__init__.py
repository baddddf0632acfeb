"""OTLP push: a Snapshot as data points, their bytes as JSON or protobuf, and the loop that delivers them."""
