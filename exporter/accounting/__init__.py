"""Attributes lost GPU time to causes and culprits: kernel rows in, nanoseconds out; pure, all in integers."""
