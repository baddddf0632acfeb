"""Wiring and process plumbing: the daemon, configuration reload, signals, systemd, logging."""
