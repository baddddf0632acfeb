"""A serving engine whose host works while the GPU does: it enqueues an iteration before it looks at the tokens of the last one.

Three processes: an API server with asyncio, the engine, and one that makes text of tokens. They talk over Unix sockets. Argument:
what a process is; without one it is the API server, which starts the others.
"""

import asyncio
import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import time
from typing import Any

import gpu
import numpy as np
import steps as log
from arrivals import Arrivals
from inside import Inside

KERNELS, KERNEL_MICROSECONDS = 60, 210.0
PREFILL_KERNELS, PREFILL_MICROSECONDS = 10, 600.0
MAX_RUNNING, PROMPT_BYTES = 12, 32 << 10
PIECES, LARGEST_MESSAGE_BYTES = 5000, 1 << 16


class Engine:
    """Requests that run, by their number. Decoding is a CUDA graph, captured once for each scale of its kernels."""

    def __init__(self, requests: socket.socket, texts: socket.socket) -> None:
        self._requests, self._texts = requests, texts
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        self._steps = log.Steps()
        self._device = gpu.Gpu(gpu.BLOCK)
        self._inside = Inside(self._steps, self._device)
        self._stream, self._done = self._device.stream(), [self._device.event() for _ in range(2)]
        self._prompts, self._tokens = gpu.Buffers(self._device, PROMPT_BYTES), self._device.memory(4096)
        self._to_host = [self._device.pinned(4096) for _ in range(2)]
        self._graph, self._scale = ctypes.c_void_p(), 0.0
        self._waiting: list[tuple[int, int]] = []
        self._running: dict[int, int] = {}
        self._chance = np.random.default_rng(self._steps.seed)
        self._hidden_seconds = 0.0

    def serve(self) -> None:
        number = 0
        while True:
            if not self._waiting and not self._running:
                self._poll.poll()
            self._receive()
            is_first = True
            while self._running or self._waiting:
                start_ns = time.monotonic_ns()
                self._iterate(number, is_first=is_first)
                self._steps.add(start_ns)
                self._receive()
                number, is_first = number + 1, False
            self._device.call("cudaEventSynchronize", self._done[(number - 1) % 2])

    def _receive(self) -> None:
        while self._poll.poll(0):
            request = json.loads(self._requests.recv(LARGEST_MESSAGE_BYTES))
            self._waiting.append((request["number"], request["tokens"]))

    def _iterate(self, number: int, *, is_first: bool) -> None:
        """is_first: no iteration is on the GPU yet."""
        self._inside.look()
        while self._waiting and len(self._running) < MAX_RUNNING:
            request, tokens = self._waiting.pop(0)
            self._running[request] = tokens
            self._prompts.copy_in(stream=self._stream)
            self._device.launch(PREFILL_MICROSECONDS, self._stream, count=PREFILL_KERNELS)
        self._decode()
        place = self._to_host[number % 2]
        self._device.copy(place.value, self._tokens.value, 4 * MAX_RUNNING, gpu.TO_HOST, self._stream)
        self._device.record(self._done[number % 2], self._stream)
        self._inside.host(0.0 if is_first else self._hidden_seconds)
        if is_first:
            return
        began = time.monotonic()
        self._device.call("cudaEventSynchronize", self._done[(number - 1) % 2])
        if not self._inside.kind:
            self._hidden_seconds = time.monotonic() - began
        self._take_tokens()

    def _decode(self) -> None:
        if self._scale != self._device.scale:
            self._scale = self._device.scale
            with self._device.captured(self._stream, self._graph):
                self._device.launch(KERNEL_MICROSECONDS, self._stream, count=KERNELS)
        self._device.launch_graph(self._graph, self._stream)
        self._device.busy_ns += int(KERNELS * KERNEL_MICROSECONDS * 1000)

    def _take_tokens(self) -> None:
        found = self._chance.integers(0, PIECES, len(self._running)).tolist()
        self._texts.send(json.dumps(list(zip(self._running, found, strict=True))).encode())
        self._running = {request: left - 1 for request, left in self._running.items() if left > 1}


def make_texts(tokens: socket.socket, answers: socket.socket) -> None:
    """Pieces of words for tokens; what a request has so far goes to the API server."""
    pieces = [f"piece{number} " for number in range(PIECES)]
    texts: dict[int, str] = {}
    while message := tokens.recv(LARGEST_MESSAGE_BYTES):
        for request, token in json.loads(message):
            texts[request] = (texts.get(request, "") + pieces[token])[-2000:]
            answers.send(json.dumps({"number": request, "text": texts[request][-40:]}).encode())


class Server:
    """Takes requests from clients, and has their answers come piece by piece."""

    def __init__(self, arrivals: Arrivals, requests: socket.socket, answers: socket.socket) -> None:
        self._arrivals, self._requests, self._answers = arrivals, requests, answers
        self._number = 0
        self.sent_bytes = 0

    def take(self) -> None:
        for tokens in self._arrivals.take(waits=False):
            self._number += 1
            self._requests.send(json.dumps({"number": self._number, "tokens": tokens}).encode())

    def answer(self) -> None:
        piece = json.loads(self._answers.recv(LARGEST_MESSAGE_BYTES))
        self.sent_bytes += len(f"data: {json.dumps(piece)}\n\n")

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._arrivals, self.take)
        loop.add_reader(self._answers, self.answer)
        await loop.create_future()


async def serve(*arguments: Any) -> None:
    await Server(*arguments).run()


def start(role: str, *sockets: socket.socket) -> None:
    """Another process, which has these sockets."""
    files = [one.fileno() for one in sockets]
    environment = os.environ | {"LAUNCHER": str(os.getpid())}
    subprocess.Popen([sys.executable, *sys.argv, role, *map(str, files)], env=environment, pass_fds=files)


def main() -> None:
    role, *files = sys.argv[1:] or ["server"]
    sockets = [socket.socket(fileno=int(file)) for file in files]
    if role == "engine":
        Engine(*sockets).serve()
    elif role == "texts":
        log.die_with_parent()
        make_texts(*sockets)
    else:
        log.end_at_sigterm()
        arrivals = Arrivals("bursts")
        ours, engines = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        tokens, texts = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        answers, answering = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        start("engine", engines, texts)
        start("texts", tokens, answering)
        asyncio.run(serve(arrivals, ours, answers))


if __name__ == "__main__":
    main()
