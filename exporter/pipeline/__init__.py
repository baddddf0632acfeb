"""One tick (read, account, detect) and the Snapshot that a scrape or a push gets."""
