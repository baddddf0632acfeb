"""The clients of a server: at each arrival they write a line {"tokens": ...} into the pipe that the server reads.

Argument: the kind of load, bursts or steady.
"""

import json
import os
import random
import signal
import sys
import time

from steps import die_with_parent

BURST_REQUESTS, BURST_TOKENS, BURST_EVERY_SECONDS = (6, 10), (50, 90), 2.0
STEADY_EVERY_SECONDS = 0.004


def send(tokens: int) -> None:
    os.write(1, json.dumps({"tokens": tokens}).encode() + b"\n")


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    chance = random.Random(int(os.environ.get("SEED", "1")))
    while True:
        if sys.argv[1] == "bursts":
            for _ in range(chance.randint(*BURST_REQUESTS)):
                send(chance.randint(*BURST_TOKENS))
            time.sleep(BURST_EVERY_SECONDS * chance.uniform(0.7, 1.3))
        else:
            send(1)
            time.sleep(chance.expovariate(1 / STEADY_EVERY_SECONDS))


if __name__ == "__main__":
    main()
