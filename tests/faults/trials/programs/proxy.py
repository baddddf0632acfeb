"""A TCP proxy that can hold back what the server answers.

`python proxy.py HOST:PORT`: prints its own port on 127.0.0.1. A line on standard input is how many seconds each piece of an
answer is held back from now on; it is echoed once it holds. The end of standard input ends it.
"""

from __future__ import annotations

import socket
import sys
import threading
import time


class Proxy:
    """server: its address."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.late_seconds = 0.0
        self._server = server

    def serve(self, listener: socket.socket) -> None:
        """For ever."""
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(self._server)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._forward, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while piece := source.recv(1 << 20):
                if is_answer and self.late_seconds:
                    time.sleep(self.late_seconds)
                sink.sendall(piece)
        except OSError:
            pass
        finally:
            sink.close()


def main() -> None:
    """Serves until standard input is closed."""
    host, _, port = sys.argv[1].partition(":")
    proxy = Proxy((host, int(port)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
        print(listener.getsockname()[1], flush=True)
        for line in sys.stdin:
            proxy.late_seconds = float(line)
            print(line, end="", flush=True)


if __name__ == "__main__":
    main()
