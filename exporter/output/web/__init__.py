"""The HTTP side: what is served (pages), to whom (gate), and how no client keeps the next one from its answer (server)."""
