"""Why is the GPU slow? Booked time in, causal chains out; pure, the time is an argument."""
