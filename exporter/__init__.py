"""gpu-stall-exporter: says why a GPU waits, in measured nanoseconds."""

__version__ = "0.1.0"
