"""What was slow on this node and why, from the history or a recording. Pure, the time is an argument."""
