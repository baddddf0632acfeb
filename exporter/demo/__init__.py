"""A job under a fault, and what the exporter says of it: live with real probes, or a recorded run through the same engine."""
