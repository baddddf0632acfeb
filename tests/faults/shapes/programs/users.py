"""The users of a web server: requests come at random, each over a connection of its own. Argument: the port.

FAULT_FILE may say that they come more or less often. At most a few wait at the same time: others go away.
"""

import http.client
import json
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import clients

EVERY_SECONDS = 0.030
WAITING, PIXELS = 4, 600
PATIENCE_SECONDS = 60


class Users:
    """Those whose requests are under way."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._threads = ThreadPoolExecutor(WAITING)
        self._free = threading.Semaphore(WAITING)
        chance = random.Random(seed)
        self._body = json.dumps({"pixels": [chance.random() for _ in range(PIXELS)]}).encode()

    def come(self) -> None:
        if self._free.acquire(blocking=False):
            self._threads.submit(self._ask)

    def _ask(self) -> None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
            connection.request("POST", "/predict", self._body, {"Content-Type": "application/json"})
            connection.getresponse().read()
            connection.close()
        except (OSError, http.client.HTTPException):  # the server has ended
            os._exit(0)
        self._free.release()


def main() -> None:
    seed = int(os.environ.get("SEED", "1"))
    users, chance = Users(int(sys.argv[1]), seed), random.Random(seed)
    while True:
        users.come()
        time.sleep(clients.spaced(chance.expovariate(1 / EVERY_SECONDS)))


if __name__ == "__main__":
    main()
