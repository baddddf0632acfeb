"""A name server that knows one address, 127.0.0.1, for every name, and that can leave requests unanswered.

`python names.py ADDRESS`: UDP port 53 there; prints `ready`. A line on standard input is N: from now on each Nth name gets no
answer at its first request, none of them with 0; it is echoed once it holds. The end of standard input ends it.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading

A_RECORD = 1
ANSWER = struct.pack("!HHHIH", 0xC00C, A_RECORD, 1, 0, 4) + socket.inet_aton("127.0.0.1")


class Names:
    """unanswered_every: 0 for never."""

    def __init__(self, listener: socket.socket) -> None:
        self.unanswered_every = 0
        self._listener = listener
        self._requests = 0

    def serve(self) -> None:
        """For ever."""
        while True:
            request, client = self._listener.recvfrom(4096)
            end = request.index(b"\0", 12) + 5
            (kind,) = struct.unpack_from("!H", request, end - 4)
            self._requests += 1
            if self.unanswered_every and self._requests >= self.unanswered_every:
                self._requests = 0
                continue
            answer = ANSWER if kind == A_RECORD else b""
            head = request[:2] + struct.pack("!HHHHH", 0x8580, 1, bool(answer), 0, 0)
            self._listener.sendto(head + request[12:end] + answer, client)


def main() -> None:
    """Serves until standard input is closed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((sys.argv[1], 53))
        names = Names(listener)
        threading.Thread(target=names.serve, daemon=True).start()
        print("ready", flush=True)
        for line in sys.stdin:
            names.unanswered_every = int(line)
            print(line, end="", flush=True)


if __name__ == "__main__":
    main()
