"""Investigations: a client of the Model Context Protocol asks `serve` why a job is slow, and knows nothing of its fault.

`python -m tests.faults.investigations` plays ten faults and prints a row for each; `--write` also writes docs/investigations.md.
cases.py has the faults, investigator.py the procedure, played.py a job with a fault and a server beside it, judged.py compares.
"""
