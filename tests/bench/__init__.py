"""`make bench`: how fast the exporter is, as ratios within one run."""
