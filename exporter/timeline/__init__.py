"""`export`: a history or a recording as a timeline for trace viewers. Pure, the time is an argument."""
