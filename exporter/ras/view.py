"""Finds the RAS socket of a job, and has a program without privileges query it.

In: a LocalJob with its processes. Out: RasResult. A connection is made only to a socket on which a process of the job itself
listens: of the address that the job chose the port alone is used, so a tenant cannot have the exporter connect elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from exporter.errors import ExporterError, NoAnswer
from exporter.host import capabilities
from exporter.host.capabilities import Capability
from exporter.host.child_process import ChildProcess
from exporter.host.listening_sockets import Listener, listeners
from exporter.host.pid_namespaces import innermost_tgid
from exporter.host.processes import Processes
from exporter.host.tcp_sockets import network_namespace
from exporter.kernel.process_rows import CommunicatorRow
from exporter.ras import program
from exporter.ras.asking import ABSENT, DEADLINE_SECONDS, FAILED, RESULTS, RasResult
from exporter.ras.job import LocalJob, known_job
from exporter.ras.line import line
from exporter.ras.lines import LINES_MAX
from exporter.text import untrusted

MODULE: Final = "exporter.ras.program"
DEFAULT_PORT: Final = 28028
VARIABLE: Final = "NCCL_RAS_ADDR"
PROCESSES_MAX: Final = 16
"""How many of a job on this node are looked at for a socket."""
_PATIENCE_SECONDS: Final = DEADLINE_SECONDS + 5
_PORT_MAX: Final = 65535

Ask = Callable[[list[Any]], Any]
"""Has the program answer one request. Raises NoAnswer."""
EnvironmentOf = Callable[[int, Iterable[str]], Mapping[str, str]]
"""The named variables of a process, by its tgid. Raises ExporterError."""


class JobRows(NamedTuple):
    """A job, as the tables showed it when its chain opened. tgids: of its processes, in the exporter's PID namespace."""

    job: LocalJob
    tgids: Mapping[int, int]
    communicators: Mapping[int, list[CommunicatorRow]]


class RasView:
    """For one thread at a time. may_enter: whether other network namespaces can be entered."""

    def __init__(
        self,
        processes: Processes,
        environment_of: EnvironmentOf,
        ask: Ask | None = None,
        may_enter: Callable[[], bool] = lambda: capabilities.has(Capability.SYS_ADMIN),
    ) -> None:
        self._processes = processes
        self._environment_of = environment_of
        self._program = ChildProcess(MODULE, (str(processes.proc),), (Capability.SYS_ADMIN, Capability.SYS_PTRACE))
        self._ask = ask or self._ask_program
        self._may_enter = may_enter

    def of(self, rows: JobRows) -> RasResult:
        """What the RAS of the job says, or why it says nothing."""
        ports = set()
        for process in rows.job.processes[:PROCESSES_MAX]:
            tgid = rows.tgids.get(process, 0)
            if not tgid:
                continue
            ports.add(port := self._port(tgid))
            found = listeners(self._processes, tgid, port)
            if found:
                return self._asked(rows, tgid, found[0])
        where = f"port {', '.join(map(str, sorted(ports or {DEFAULT_PORT})))}"
        text = f"not queried: no process of the job listens on {where} (NCCL before 2.24, or NCCL_RAS_ENABLE=0)"
        return RasResult(ABSENT, (line(text),))

    def close(self) -> None:
        """End a query that goes on. From any thread."""
        self._program.close()

    def _asked(self, rows: JobRows, tgid: int, listener: Listener) -> RasResult:
        proc, shown_as = self._processes.proc, self._processes.readable_id(tgid)
        is_here = network_namespace(str(proc), shown_as) == network_namespace("/proc", "self")
        if not is_here and not self._may_enter():
            return program.not_entered()
        known = known_job(rows.job, rows.communicators, dict(self._innermost(rows)))
        address = (listener.address, listener.port)
        inside = 0 if is_here else shown_as
        try:
            return _checked(self._ask(program.request_of(address, known, is_ipv6=listener.is_ipv6, inside=inside)))
        except (NoAnswer, untrusted.Untrusted):
            return RasResult(FAILED, (line("not queried: the program that does it has failed"),))

    def _ask_program(self, request: list[Any]) -> Any:
        """A new process for each request: it gives up its capabilities before it connects."""
        try:
            return self._program.ask(request, _PATIENCE_SECONDS).content
        finally:
            self._program.end()

    def _innermost(self, rows: JobRows) -> Iterable[tuple[int, int]]:
        for process in rows.job.processes:
            if tgid := rows.tgids.get(process, 0):
                try:
                    yield process, innermost_tgid(self._processes, tgid)
                except ExporterError:
                    continue  # it has ended

    def _port(self, tgid: int) -> int:
        """28028 unless the job has chosen another one."""
        try:
            chosen = self._environment_of(tgid, (VARIABLE,)).get(VARIABLE, "")
        except ExporterError:
            return DEFAULT_PORT
        digits = chosen.rpartition(":")[2]
        port = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= len(str(_PORT_MAX)) else 0
        return port if 0 < port <= _PORT_MAX else DEFAULT_PORT


def _checked(content: Any) -> RasResult:
    """What the program has decoded came from a tenant. Raises Untrusted."""
    result, found = untrusted.sequence(content, length=2)
    if untrusted.word(result) not in RESULTS:
        raise untrusted.Untrusted("an unknown result")
    texts = untrusted.sequence(found, LINES_MAX)
    return RasResult(result, tuple(untrusted.text(one, untrusted.LINE_CHARACTERS) for one in texts))
