"""The last minute of the kernel's rows around a chain, in a file that can be run through the engine again."""
