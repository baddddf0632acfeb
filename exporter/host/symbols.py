"""Names of the functions that contain addresses of a process.

In: a tgid and addresses. Out: texts such as `train_step+0x41 (trainer)`, by bcc where the distribution's interpreter has it, else
`libtorch_cuda.so+0x1234` from /proc/TGID/maps. The process chooses everything that is read: it is bounded and made printable.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from exporter.errors import ProcessGone
from exporter.host import mappings
from exporter.host.few_rights import with_few_rights
from exporter.host.processes import Processes
from exporter.text.printable import printable_bytes

SYSTEM_PYTHON: Final = "/usr/bin/python3"
"""python3-bpfcc belongs to the distribution's interpreter, and not to a virtual environment."""

BCC_PROGRAM: Final = Path(__file__).with_name("bcc_symbols.py")
TIMEOUT_SECONDS: Final = 20.0
ANSWER_BYTES_MAX: Final = 1 << 20
FUNCTION_CHARACTERS_MAX: Final = 120
MODULE_CHARACTERS_MAX: Final = 64


FilesAt = Callable[[int, Sequence[int]], Mapping[int, str]]
"""The file of each address of a process that lies in one; see by_files()."""


class CodeAddress(NamedTuple):
    """is_return: the address is just after a call, and the call is meant."""

    address: int
    is_return: bool


class AddressNames(NamedTuple):
    """texts: address -> text. by_bcc: whether functions were looked up; otherwise only files are known."""

    texts: Mapping[int, str]
    by_bcc: bool


class Symbols:
    """Looks up one process at a time. close() aborts a look-up from another thread, and all later ones."""

    def __init__(
        self,
        processes: Processes,
        files_at: FilesAt,
        python: str = SYSTEM_PYTHON,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._processes = processes
        self._files_at = files_at
        self._command = with_few_rights(python, "-I", str(BCC_PROGRAM))
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def name(self, tgid: int, addresses: Iterable[CodeAddress]) -> AddressNames:
        """Name every address that lies in a file or in a function. Raises ProcessGone, NotPossibleHere, NoAnswer."""
        wanted = tuple(dict.fromkeys(addresses))
        started_ticks = self._processes.start_time_ticks(tgid)
        texts = self._files_at(tgid, [one.address for one in wanted])
        answer = self._run_bcc(self._processes.readable_id(tgid), wanted)
        if self._processes.start_time_ticks(tgid) != started_ticks:
            raise ProcessGone(f"process {tgid} ended")
        return AddressNames({**texts, **by_functions(answer, wanted)}, by_bcc=answer is not None)

    def close(self) -> None:
        """Kill the program that is running; start none any more."""
        with self._lock:
            self._is_closed = True
            if self._child is not None:
                self._child.kill()

    def _run_bcc(self, tgid: int, addresses: Sequence[CodeAddress]) -> Any:
        """The output of the program; None when it fails, such as without bcc."""
        with self._lock:
            if self._is_closed:
                return None
            try:
                child = self._child = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={"LANG": "C.UTF-8"},
                )
            except OSError:
                return None
        with child:
            try:
                output, _ = child.communicate(
                    json.dumps({"tgid": tgid, "addresses": addresses}).encode(), timeout=self._timeout_seconds
                )
                answer = json.loads(output) if len(output) <= ANSWER_BYTES_MAX and child.returncode == 0 else None
            except (OSError, ValueError, subprocess.TimeoutExpired):
                answer = None
            finally:
                child.kill()
        with self._lock:
            self._child = None
        return answer


def by_functions(answer: Any, addresses: Sequence[CodeAddress]) -> dict[int, str]:
    """Address -> function, where the answer names one. answer: of bcc_symbols.py, of any form."""
    texts = {}
    with contextlib.suppress(TypeError, ValueError):
        for one, (name, offset, module) in zip(addresses, answer or (), strict=True):
            if isinstance(name, str) and name and isinstance(offset, int):
                function = printable_bytes(name.encode("utf-8", "replace"), FUNCTION_CHARACTERS_MAX)
                of = f" ({_base_name(module.encode('utf-8', 'replace'))})" if isinstance(module, str) and module else ""
                texts[one.address] = f"{function}+{offset:#x}{of}"
    return texts


def by_files(maps: bytes, addresses: Iterable[int]) -> dict[int, str]:
    """Address -> file and offset in it, such as `libc.so.6+0x8ce9d`, where the address lies in a mapped file."""
    mapped = list(mappings.parse_executable_mappings(maps))  # ascending
    starts = [one.start for one in mapped]
    texts = {}
    for address in addresses:
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < mapped[at].end:
            one = mapped[at]
            texts[address] = f"{_base_name(one.path)}+{address - one.start + one.offset:#x}"
    return texts


def _base_name(path: bytes) -> str:
    return printable_bytes(path.rpartition(b"/")[2], MODULE_CHARACTERS_MAX)
