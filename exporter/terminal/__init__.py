"""What a command prints to: standard streams that may be closed, full or not UTF-8, colours, width, and waiting."""
