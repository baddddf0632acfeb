"""A program for any CPython from 3.9 on that makes calls below so many frames, beside other threads of Python.

usage: frames_program.py LIBRARY FRAMES THREADS

One number per line of standard input: so many calls; answers how many nanoseconds of CPU they took.
"""

from __future__ import annotations

import ctypes
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.burst_ns.argtypes = [ctypes.c_long]
library.burst_ns.restype = ctypes.c_long
END = threading.Event()


def deeper(frames: int) -> None:
    """The innermost function makes the calls."""
    if frames > 1:
        deeper(frames - 1)
        return
    for line in sys.stdin:
        print(library.burst_ns(int(line)), flush=True)


for _ in range(int(sys.argv[3])):
    threading.Thread(target=END.wait, daemon=True).start()
deeper(int(sys.argv[2]) - 1)
