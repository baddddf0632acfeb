"""Whose fault is it that the GPU waits? Kernel rows to nanoseconds by cause and culprit: pure, all in integers."""
