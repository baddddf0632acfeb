"""Where are the threads of a job that is stuck, and who made the call that they are in? Taken from the living process."""
