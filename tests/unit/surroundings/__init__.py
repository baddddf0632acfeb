"""exporter/surroundings."""
