"""Another process, for faults that need one: `hold FILE`, `answer`, `read PERIOD`.

hold and answer take a line of seconds at a time. hold locks the file for so long, and answers when it has it; answer does so
after these seconds. read takes a page from its standard input in each period.
"""

import fcntl
import os
import sys
import time

from steps import die_with_parent

PAGE_BYTES = 4096


def hold(path: str) -> None:
    with open(path, "r+b") as file:  # noqa: PTH123 - held open
        for line in sys.stdin:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(1, b".")
            time.sleep(float(line))
            fcntl.flock(file, fcntl.LOCK_UN)


def answer() -> None:
    for line in sys.stdin:
        time.sleep(float(line))
        os.write(1, b".")


def read(period_seconds: float) -> None:
    while os.read(0, PAGE_BYTES):
        time.sleep(period_seconds)


def main() -> None:
    die_with_parent()
    what, *arguments = sys.argv[1:]
    if what == "read":
        read(float(arguments[0]))
        return
    os.write(1, b".")  # ready
    if what == "hold":
        hold(arguments[0])
    else:
        answer()


if __name__ == "__main__":
    main()
