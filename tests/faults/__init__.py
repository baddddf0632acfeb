"""Labelled faults with paired truth: what a diagnosis of a waiting GPU is measured against.

An episode (episode.py) is a training job on the stand-in GPU and one thing that goes wrong in a window of its steps.
The job is run twice with the same seed, without and with the fault; what the steps took longer is the truth (truth.py).
`python -m tests.faults --list` names the episodes, `python -m tests.faults NAME` prints one's truth.

`python -m tests.faults.judge NAME` makes both runs under the kernel's programs (recorder.py) and compares the lost time of the
accounting (books.py) with the truth. recordings/ keeps some of these runs: tests/unit/faults judges them without a kernel.

shapes/ has jobs with programs of their own, and trials/ runs these with faults and decoys that a seed chooses; their truth is
their own step log.
"""
