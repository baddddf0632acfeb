"""A camera: 30 times a second a picture is in shared memory, and its number goes to a socket. Arguments: both, as open files."""

import mmap
import socket
import sys
import time

import numpy as np

HEIGHT, WIDTH = 360, 640
PICTURE_BYTES = 3 * HEIGHT * WIDTH
PLACES, NUMBER_BYTES = 4, 8
PERIOD_SECONDS = 1 / 30


def main() -> None:
    memory = mmap.mmap(int(sys.argv[1]), PLACES * PICTURE_BYTES)
    numbers = socket.socket(fileno=int(sys.argv[2]))
    numbers.setblocking(False)
    scene = np.random.default_rng(0).integers(0, 256, PICTURE_BYTES, dtype=np.uint8)
    due, number = time.monotonic(), 0
    while True:
        due = max(due + PERIOD_SECONDS, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0))
        at = number % PLACES * PICTURE_BYTES
        memory[at : at + PICTURE_BYTES] = np.roll(scene, 3 * number).tobytes()
        try:
            numbers.send(number.to_bytes(NUMBER_BYTES, "little"))
        except BlockingIOError:  # the job has not read the last ones yet
            continue
        except OSError:  # the job has ended
            return
        number += 1


if __name__ == "__main__":
    main()
