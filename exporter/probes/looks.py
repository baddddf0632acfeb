"""Looks at processes for libraries to probe, in threads: what a tenant does to a look costs the tenant, and no tick.

In: Discovery, fresh mappings as the kernel reports them, /proc. Out: attached probes, through Discovery.
Two threads, each with a reader of its own. The first one looks at what is fresh and walks through /proc. A look that is not
answered at once is left to the second one, which is patient, and so are later looks at that process for a while.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from exporter.errors import ExporterError, KernelRefused, MalformedElf, NoAnswer
from exporter.host.libraries import LibraryKind, kind_of
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.slow_processes import SlowProcesses
from exporter.kernel.mapping_watch import MappingWatch
from exporter.probes.discovery import Discovery, Owner
from exporter.probes.look_queue import Look, LookQueue
from exporter.probes.proc_walk import ProcWalk, Walked

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 0.25
PATIENCE_WITH_SLOW_SECONDS: Final = 10.0
SLICE_SECONDS: Final = 0.02
"""After so long it is another owner's turn."""
WALK_STEP_SECONDS: Final = 0.005
WALK_SHARE: Final = 0.02
"""Part of the time that later walks take. The first one goes on without a break."""
HURRY_SECONDS: Final = 1.0
"""After reports of mappings were lost a walk begins no sooner after the one before."""
COALESCE_SECONDS: Final = 0.01
BUSY_COALESCE_SECONDS: Final = 0.1
BUSY_MAPPINGS: Final = 64
"""Fresh mappings at a time from which the thread reads them less often."""
IDLE_SECONDS: Final = 1.0
STOP_SECONDS: Final = 1.0
READER_IDLE_SECONDS: Final = 10.0
"""After this the patient reader, a process with some 9 MiB of its own, ends."""


class Looks:
    """start() begins; close() ends. owner_of: the owner of a process. watch: fresh mappings; None where the kernel refuses them.

    interval_seconds: between walks. on_first_walk: called once, in the thread of the walk.
    """

    def __init__(
        self,
        discovery: Discovery,
        processes: Processes,
        watch: MappingWatch | None,
        owner_of: Callable[[int], Owner],
        *,
        interval_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._discovery = discovery
        self._watch = watch
        self._owner_of = owner_of
        self.interval_seconds = interval_seconds
        self._clock = clock
        self._lock = threading.Lock()  # for the queues
        self._queue = LookQueue()
        self._slow_queue = LookQueue()
        self._slow = SlowProcesses()
        self._surplus: deque[tuple[int, int]] = deque()
        self._reader = TenantReader(processes, PATIENCE_SECONDS)
        self._patient_reader = TenantReader(processes, PATIENCE_WITH_SLOW_SECONDS)
        self._closed = threading.Event()
        self._has_slow = threading.Event()
        self._proc_walk = ProcWalk(discovery, processes, owner_of, self._is_read_alone)
        self._walk: Iterator[Walked] | None = None
        self._walks = 0
        self._next_walk_at = self._may_hurry_at = 0.0
        self._lost_mappings = 0
        self.is_first_walk_over = threading.Event()
        self.on_first_walk: Callable[[], None] = lambda: None
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._threads = [
            threading.Thread(target=self._run, name="looks", daemon=True),
            threading.Thread(target=self._run_slow, name="slow-looks", daemon=True),
        ]

    @property
    def lost_mappings(self) -> int:
        """Fresh mappings that the kernel could not report."""
        return self._watch.lost if self._watch else 0

    def start(self) -> None:
        """Call it once."""
        for thread in self._threads:
            thread.start()

    def walk_now(self) -> None:
        """One whole walk in the calling thread, before start()."""
        self._proc_walk.whole(self._patient_reader)
        self._patient_reader.end()
        self._end_first_walk()
        self._next_walk_at = self._clock() + self.interval_seconds

    def expect(self, path: Path, kind: LibraryKind) -> None:
        """Probe a library that a process is about to map, in the calling thread, before start()."""
        self._discovery.expect(path, kind, self._patient_reader)

    def note_surplus(self, number: int, first: int) -> None:
        """See Discovery.note_surplus()."""
        self._surplus.append((number, first))
        os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        """Does not wait for a look that hangs. May be called twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._has_slow.set()
        os.eventfd_write(self._wake_fd, 1)
        until = time.monotonic() + STOP_SECONDS
        for reader, thread in zip((self._reader, self._patient_reader), self._threads, strict=True):
            reader.close()
            if thread.ident is not None:
                thread.join(max(until - time.monotonic(), 0.0))
        if self._watch is not None:
            self._watch.close()
        os.close(self._wake_fd)

    def _run(self) -> None:
        with select.epoll() as epoll:
            epoll.register(self._wake_fd, select.EPOLLIN)
            for fd in self._watch.filenos() if self._watch else ():
                epoll.register(fd, select.EPOLLIN | select.EPOLLET)
            while not self._closed.is_set():
                try:
                    self._cycle(epoll)
                except ExporterError as error:
                    log.warning("cannot look for libraries: %s", error.one_line())
                    self._closed.wait(IDLE_SECONDS)
                except Exception:  # a defect must not end the search for libraries
                    if not self._closed.is_set():
                        log.exception("cannot look for libraries: internal error (bug)")
                    self._closed.wait(IDLE_SECONDS)

    def _cycle(self, epoll: select.epoll) -> None:
        if any(fd == self._wake_fd for fd, _ in epoll.poll(self._seconds_to_wait())):
            os.eventfd_read(self._wake_fd)
        while self._surplus:
            self._discovery.note_surplus(*self._surplus.popleft())
        if not self._discovery.is_enabled:
            self._closed.wait(IDLE_SECONDS)
            return
        self._take_fresh_mappings()
        self._discovery.detach_unguarded()
        with self._lock:
            look = self._queue.take(self._clock())
        if look is not None:
            self._take_steps(look, self._queue, self._reader)
            return
        if self._walks and not self.is_first_walk_over.is_set():
            self._end_first_walk()
        if self._clock() >= self._next_walk_at:
            if self._walk is None and self._watch:
                _follow_cpus(self._watch, epoll)
            self._step_walk()

    def _is_read_alone(self, tgid: int) -> bool:
        """Also a process whose owner has no time left: its mappings are read when it has."""
        now = self._clock()
        with self._lock:
            if not self._slow.has_any and not self._queue.has_owner_without_time(now):
                return False  # without reading whose process it is
        owner = self._owner_of(tgid)
        with self._lock:
            return self._slow.is_slow(owner, tgid, now) or not self._queue.has_time(owner, now)

    def _seconds_to_wait(self) -> float:
        now = self._clock()
        with self._lock:
            waits: list[float | None] = [IDLE_SECONDS, self._queue.seconds_until_next(now)]
        waits.append(max(self._next_walk_at - now, 0.0))
        return min((one for one in waits if one is not None), default=0.0)

    def _take_fresh_mappings(self) -> None:
        if self._watch is None:
            return
        fresh = self._watch.drain()
        if fresh:
            # A process maps ten files at its start: what comes within a moment costs one look.
            self._closed.wait(BUSY_COALESCE_SECONDS if len(fresh) >= BUSY_MAPPINGS else COALESCE_SECONDS)
            fresh |= self._watch.drain()
        if self._watch.lost > self._lost_mappings:
            self._lost_mappings = self._watch.lost
            self._next_walk_at = min(self._next_walk_at, max(self._may_hurry_at, self._clock()))
        self._discovery.note_use({(mapped.inode, mapped.path) for mapped in fresh})
        unknown = {one.tgid for one in fresh if not self._discovery.is_attached(one)}
        for tgid in unknown | {one.tgid for one in fresh if kind_of(one.path) is LibraryKind.DRIVER}:
            self._add(Look(tgid, self._owner_of(tgid), is_optional=tgid not in unknown))

    def _add(self, look: Look) -> None:
        now = self._clock()
        with self._lock:
            if self._slow.is_hanging(look.owner, look.tgid):
                return
            if self._slow.is_slow(look.owner, look.tgid, now):
                look.steps = None  # of another reader
                is_waiting = self._slow_queue.add(look, now)
                self._has_slow.set()
            else:
                is_waiting = self._queue.add(look, now)
        if not is_waiting:
            self._discovery.count_left_out(look.owner)

    def _take_steps(self, look: Look, queue: LookQueue, reader: TenantReader) -> None:
        """Go on with a look until it is over or another owner's turn."""
        started_at = self._clock()
        if look.steps is None:
            look.steps = self._discovery.look_at(look.tgid, reader)
        is_over = False
        try:
            while self._clock() - started_at < SLICE_SECONDS and not is_over:
                is_over = next(look.steps, look) is look
        except NoAnswer as error:
            is_over = True
            self._on_no_answer(look, queue, error)
        except MalformedElf as error:
            is_over = True
            log.debug("skipped: %s", error.one_line())
        now = self._clock()
        with self._lock:
            queue.spent(look.owner, now - started_at, now)
            if not is_over:
                queue.add(look, now)

    def _on_no_answer(self, look: Look, queue: LookQueue, error: NoAnswer) -> None:
        now = self._clock()
        with self._lock:
            is_first = queue is self._queue
            self._slow.add(look.owner, look.tgid, now)
            if not is_first:
                self._slow.add_hanging(look.owner, look.tgid, self._patient_reader.given_up)
            else:
                self._slow_queue.add(Look(look.tgid, look.owner), now)
                self._has_slow.set()
        if not is_first and not self._closed.is_set():
            self._discovery.count_unanswered(NoAnswer(f"process {look.tgid} of {look.owner}: {error}"))

    def _end_first_walk(self) -> None:
        self.is_first_walk_over.set()
        self.on_first_walk()

    def _step_walk(self) -> None:
        started_at = self._clock()
        if self._walk is None:
            self._walk = self._proc_walk.steps(self._reader)
        for tgid, steps, seconds in self._walk:
            if tgid:
                owner = self._owner_of(tgid)
                self._add(Look(tgid, owner, steps))
                with self._lock:
                    self._queue.spent(owner, seconds, self._clock())
            elif self._clock() - started_at >= WALK_STEP_SECONDS:
                break
        else:
            self._walk = None
            self._walks += 1
            now = self._clock()
            self._next_walk_at = now + self.interval_seconds
            self._may_hurry_at = now + HURRY_SECONDS
            return
        if self._walks:
            self._next_walk_at = self._clock() + (self._clock() - started_at) / WALK_SHARE

    def _run_slow(self) -> None:
        used_at = self._clock()
        while not self._closed.is_set():
            with self._lock:
                look = self._slow_queue.take(self._clock())
                wait_seconds = self._slow_queue.seconds_until_next(self._clock())
                if look is None:
                    self._has_slow.clear()
            if look is not None:
                used_at = self._clock()
                try:
                    self._take_steps(look, self._slow_queue, self._patient_reader)
                except Exception:  # as in the other thread
                    if not self._closed.is_set():
                        log.exception("cannot look for libraries: internal error (bug)")
                continue
            if self._clock() - used_at >= READER_IDLE_SECONDS:
                self._patient_reader.end()
            self._has_slow.wait(READER_IDLE_SECONDS if wait_seconds is None else max(wait_seconds, COALESCE_SECONDS))


def _follow_cpus(watch: MappingWatch, epoll: select.epoll) -> None:
    """Before a walk, which finds what was mapped on a CPU while nothing reported it."""
    try:
        for fd in watch.follow_cpus():
            epoll.register(fd, select.EPOLLIN | select.EPOLLET)
    except KernelRefused as error:
        log.warning("libraries that are mapped on a CPU are found only by scanning /proc: %s", error.one_line())
