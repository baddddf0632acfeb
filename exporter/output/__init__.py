"""One Snapshot, several readers: bytes for a scrape, and the server that hands them out."""
