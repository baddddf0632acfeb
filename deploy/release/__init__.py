"""Makes a release: what is handed out, byte for byte the same wherever and whenever it is made from one commit."""
