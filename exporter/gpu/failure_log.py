"""Counts failures of the driver, and logs each only once."""

from __future__ import annotations

import logging
from collections import Counter

from exporter.gpu.driver_calls import DriverFailure
from exporter.gpu.model import FailureKind

log = logging.getLogger(__name__)

DRIVER = ""
"""In place of a GPU's number: the driver as a whole."""


class FailureLog:
    """gpu: number of a GPU, or DRIVER."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, FailureKind]] = Counter()
        self.last = ""
        """The text of the last failure."""
        self._present: set[tuple[str, FailureKind]] = set()
        self._failed_calls: set[tuple[str, str]] = set()

    def add(self, gpu: str, kind: FailureKind, text: str) -> None:
        """A failure that costs the sample of a GPU, or of all; logged again only after recovered()."""
        self.counts[gpu, kind] += 1
        self.last = f"GPU {gpu}: {text}" if gpu else f"NVIDIA driver: {text}"
        if (gpu, kind) not in self._present:
            log.warning("%s", self.last)
        self._present.add((gpu, kind))

    def add_call(self, gpu: str, failure: DriverFailure) -> None:
        """A failure that costs one value of a GPU; logged once, and once for all GPUs when the driver lacks the function."""
        self.counts[gpu, failure.kind] += 1
        self.last = f"GPU {gpu}: {failure.one_line()}; its value is not reported"
        failed_call = (DRIVER if failure.kind is FailureKind.NO_FUNCTION else gpu, failure.call)
        if failed_call not in self._failed_calls:
            log.warning("%s", self.last)
        self._failed_calls.add(failed_call)

    def recovered(self, gpu: str, text: str) -> None:
        """Log the text if add() has logged a failure of this GPU."""
        over = {one for one in self._present if one[0] == gpu}
        if over:
            log.info("%s", text)
        self._present -= over
