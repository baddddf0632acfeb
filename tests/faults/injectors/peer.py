"""A server for one job: sends as many bytes as a request wants, and can be made slow.

`python peer.py ADDRESS`: prints its port; lines on its standard input are orders, each is echoed once it holds, and
their end ends it. `late SECONDS`: before each answer; `once SECONDS`: before the next one. It imports nothing of ours: it runs in
another network namespace.
"""

from __future__ import annotations

import socket
import sys
import threading
import time

ORDER_BYTES = 8
ANSWER_BYTES_MAX = 64 << 20
CONNECTIONS_MAX = 64
IDLE_SECONDS = 60.0


class Manner:
    """How it answers. late_seconds: each time; once_seconds: the next time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._late_seconds = 0.0
        self._once_seconds = 0.0

    def order(self, line: str) -> None:
        """`late 0.02`."""
        word, seconds = line.split()
        with self._lock:
            if word == "late":
                self._late_seconds = float(seconds)
            else:
                self._once_seconds = float(seconds)

    def take(self) -> float:
        """How long this answer has to wait."""
        with self._lock:
            once, self._once_seconds = self._once_seconds, 0.0
            return self._late_seconds + once


def serve(connection: socket.socket, manner: Manner) -> None:
    """One client to its end."""
    answer = bytes(1 << 20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(IDLE_SECONDS)
    with connection:
        try:
            while order := connection.recv(ORDER_BYTES, socket.MSG_WAITALL):
                left = int.from_bytes(order, "little")
                if left > ANSWER_BYTES_MAX:
                    return
                time.sleep(manner.take())
                while left:
                    connection.sendall(memoryview(answer)[: min(left, len(answer))])
                    left -= min(left, len(answer))
        except OSError:
            return


def main() -> None:
    """Serves until standard input is closed."""
    manner = Manner()
    family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
    listener = socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=sys.argv[1] == "::")
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        for _ in range(CONNECTIONS_MAX):
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, manner), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    for line in sys.stdin:
        manner.order(line)
        print(line, end="", flush=True)


if __name__ == "__main__":
    main()
