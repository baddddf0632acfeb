"""A model behind a web server as people write it first: a thread for each request, which takes a lock and runs the model itself.

Inputs are numbers in JSON, and are copied from memory that is not pinned. Users are another process.
"""

import json
import subprocess
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gpu
import numpy as np
from inside import Inside
from steps import Steps

KERNELS, KERNEL_MICROSECONDS = 36, 450.0
CLASSES = 1000
INPUT_BYTES = 600 << 10
_USERS = Path(__file__).with_name("users.py")


class Model:
    """One request at a time."""

    def __init__(self) -> None:
        self._steps = Steps()
        self._device = gpu.Gpu(gpu.BLOCK)
        self._inside = Inside(self._steps, self._device)
        self._memory = self._device.memory(gpu.LARGEST_BATCH * INPUT_BYTES)
        self._scores = np.random.default_rng(self._steps.seed).random(CLASSES, dtype=np.float32)
        self._scores_on_device = self._device.memory(4 * CLASSES)
        self._lock = threading.Lock()

    def predict(self, pixels: np.ndarray) -> list[int]:
        """The five likeliest classes."""
        image = np.resize((pixels - pixels.mean()) / (pixels.std() + 1e-6), INPUT_BYTES // 4).astype(np.float32)
        with self._lock:
            start_ns = time.monotonic_ns()
            self._inside.look()
            size_bytes = round(INPUT_BYTES * min(self._device.batch, gpu.LARGEST_BATCH))
            self._device.copy(self._memory.value, image.ctypes.data, size_bytes, gpu.TO_DEVICE)
            self._device.launch(KERNEL_MICROSECONDS, count=KERNELS)
            # Unpinned: this waits for the kernels.
            self._device.copy(self._scores.ctypes.data, self._scores_on_device.value, 4 * CLASSES, gpu.TO_HOST)
            self._inside.host()
            self._steps.add(start_ns)
            return [int(one) for one in np.argsort(-self._scores)[:5]]


class Handler(BaseHTTPRequestHandler):
    """A connection, with one request."""

    model: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"classes": self.model.predict(np.array(asked["pixels"], dtype=np.float32))}).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the base class names it
        """Nothing is printed."""


class Server(ThreadingHTTPServer):
    """Threads end with the process."""

    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    Handler.model = Model()
    with Server(("127.0.0.1", 0), Handler) as server:
        # Not a child, which would be a worker of the job. They end with the server.
        line = ["setsid", "--fork", sys.executable, str(_USERS), str(server.server_port)]
        subprocess.run(line, check=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
