"""SQL over the history: documented views, statements that can only read, and histories of several nodes as one."""
