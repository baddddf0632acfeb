"""Python frames: addresses in a live CPython process -> file, qualified name, and the line that runs."""
