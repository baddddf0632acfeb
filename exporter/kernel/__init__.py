"""The only code that talks to bpf(2): open, load, attach, read."""
