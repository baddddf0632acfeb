"""What was wrong, and is it still? What was recorded in, a verdict with its reasons out; pure, the time is given."""
