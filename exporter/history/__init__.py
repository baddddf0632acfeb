"""What happened of late on this node, kept in one bounded file: what is said of chains, and windows of what processes did."""
