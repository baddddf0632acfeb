"""exporter/hostmetrics."""
