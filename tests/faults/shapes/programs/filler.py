"""Keeps a folder filled with files. Arguments: the folder, a file that each of them is a link to, and the reader's process.

It ends with the reader.
"""

import os
import sys
import time
from pathlib import Path

FILES = 48
LOOK_SECONDS = 0.02


def main() -> None:
    folder, data, reader = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    number = 0
    try:
        while True:
            for _ in range(FILES - len(os.listdir(folder))):  # noqa: PTH208 - in each look
                os.kill(reader, 0)  # before each one: who removes the folder has seen the reader's end
                number += 1
                os.link(data, folder / f"{number:09}.bin")
            os.kill(reader, 0)
            time.sleep(LOOK_SECONDS)
    except (ProcessLookupError, FileNotFoundError):
        return


if __name__ == "__main__":
    main()
