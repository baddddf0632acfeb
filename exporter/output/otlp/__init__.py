"""OTLP exporters: metrics at an interval, causal chains as log records and spans when they happen, as JSON or protobuf."""
