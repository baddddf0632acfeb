"""Stack sampling: where threads of a stalled job are stuck, and which functions made the calls that they are in."""
