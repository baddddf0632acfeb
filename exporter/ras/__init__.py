"""NCCL's own view of a job: its RAS socket is queried once when a chain opens, and the answer becomes lines of evidence."""
