"""Inference in an event loop: coroutines take requests from a pipe, make batches, and await a model that runs in a thread."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import gpu
import numpy as np
from arrivals import Arrivals
from inside import Inside
from steps import Steps

KERNELS, KERNEL_MICROSECONDS = 48, 400.0
MAX_BATCH, MAX_DELAY_SECONDS, MAX_QUEUED = 16, 0.003, 128
INPUT_BYTES, VOCABULARY, WORDS = 200 << 10, 4096, 96


class Model:
    """Runs in one thread: an event stands for the end of a batch."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._device = gpu.Gpu(gpu.BLOCK)
        self._inside = Inside(steps, self._device)
        self._stream, self._done = self._device.stream(), self._device.event()
        self._buffers = gpu.Buffers(self._device, INPUT_BYTES)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """A row of each input's."""
        start_ns = time.monotonic_ns()
        self._inside.look()
        self._device.stretch = 0.8 + 0.2 * len(inputs) / MAX_BATCH
        self._buffers.copy_in(stream=self._stream)
        self._device.launch(KERNEL_MICROSECONDS, self._stream, count=KERNELS)
        self._device.record(self._done, self._stream)
        self._device.call("cudaEventSynchronize", self._done)
        self._inside.host()
        self._steps.add(start_ns)
        return inputs.mean(axis=1)


class Service:
    """Coroutines, and the threads that they await."""

    def __init__(self, steps: Steps, arrivals: Arrivals) -> None:
        self._arrivals, self._model = arrivals, Model(steps)
        self._requests: asyncio.Queue[tuple[np.ndarray, asyncio.Future[float]]] = asyncio.Queue(MAX_QUEUED)
        self._models = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._tokenizers = ThreadPoolExecutor(2, thread_name_prefix="tokenizer")
        self._random = np.random.default_rng(steps.seed)
        self._requested: set[asyncio.Task[None]] = set()

    def tokenized(self) -> np.ndarray:
        """A text, as numbers."""
        return np.sort(self._random.integers(0, VOCABULARY, WORDS)).astype(np.float32)

    async def answer(self) -> None:
        """One request, from its text to its answer."""
        loop = asyncio.get_running_loop()
        words = await loop.run_in_executor(self._tokenizers, self.tokenized)
        answer = loop.create_future()
        if not self._requests.full():
            self._requests.put_nowait((words, answer))
            await answer

    def take(self) -> None:
        """The pipe is readable."""
        for _ in self._arrivals.take(waits=False):
            task = asyncio.create_task(self.answer())
            self._requested.add(task)
            task.add_done_callback(self._requested.discard)

    async def batch(self) -> list[tuple[np.ndarray, "asyncio.Future[float]"]]:
        """Until it is full, or its first request has waited long enough."""
        found = [await self._requests.get()]
        until = time.monotonic() + MAX_DELAY_SECONDS
        while len(found) < MAX_BATCH:
            try:
                found.append(await asyncio.wait_for(self._requests.get(), max(until - time.monotonic(), 0)))
            except TimeoutError:
                break
        return found

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._arrivals, self.take)
        while True:
            found = await self.batch()
            inputs = np.stack([words for words, _ in found])
            for (_, answer), value in zip(
                found, await loop.run_in_executor(self._models, self._model.predict, inputs), strict=True
            ):
                answer.set_result(float(value))


async def serve(steps: Steps, arrivals: Arrivals) -> None:
    await Service(steps, arrivals).run()


def main() -> None:
    steps = Steps()
    asyncio.run(serve(steps, Arrivals("steady")))


if __name__ == "__main__":
    main()
