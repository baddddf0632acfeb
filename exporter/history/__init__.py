"""The history of this node in one file of bounded size: chain events, and windows of what each process did."""
