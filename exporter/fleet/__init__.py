"""Several nodes asked at once: each runs `gpu-stall-exporter serve`, and this is its client."""
