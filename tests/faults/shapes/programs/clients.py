"""The clients of a server: at each arrival they write a line {"tokens": ...} into the pipe that the server reads.

Argument: the kind of load, bursts, steady or waves. FAULT_FILE may say that they come more or less often.
"""

import json
import os
import random
import select
import signal
import sys
import time

import fault_file

BURST_REQUESTS, BURST_TOKENS, BURST_EVERY_SECONDS = (6, 10), (50, 90), 2.0
STEADY_EVERY_SECONDS = 0.004
WAVE_SECONDS, CALM_SECONDS = 3.0, 1.0
SHORT_SECONDS = 0.1

_SERVER = select.poll()
_SERVER.register(1, 0)  # an error alone: the server has closed its end


def send(tokens: int) -> None:
    os.write(1, json.dumps({"tokens": tokens}).encode() + b"\n")


def spaced(seconds: float) -> float:
    """Seconds until the next arrival. seconds: as usual."""
    fault = fault_file.read(os.environ.get("FAULT_FILE", "")) or {"kind": "", "share": 0.0}
    if fault["kind"] == "fewer-requests":
        return seconds * float(1 + fault["share"])
    return seconds / float(1 + fault["share"]) if fault["kind"] == "more-requests" else seconds


def wait(seconds: float) -> None:
    """Until the next arrival. seconds: as usual."""
    seconds = spaced(seconds)
    if seconds < SHORT_SECONDS:
        time.sleep(seconds)
    elif _SERVER.poll(seconds * 1000):
        sys.exit()


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    chance = random.Random(int(os.environ.get("SEED", "1")))
    calm_at = time.monotonic() + WAVE_SECONDS
    while True:
        if sys.argv[1] == "bursts":
            for _ in range(chance.randint(*BURST_REQUESTS)):
                send(chance.randint(*BURST_TOKENS))
            wait(BURST_EVERY_SECONDS * chance.uniform(0.7, 1.3))
        else:
            if sys.argv[1] == "waves" and time.monotonic() > calm_at:
                wait(CALM_SECONDS)
                calm_at = time.monotonic() + WAVE_SECONDS
            send(1)
            wait(chance.expovariate(1 / STEADY_EVERY_SECONDS))


if __name__ == "__main__":
    main()
