"""Makes a release: from one commit always the same bytes, on any machine, at any time."""
