"""What is known about the Python code of a chain: where threads are stuck, and the lines that take the time.

In: processes with traced calls, sampled stacks, chains. Out: PythonSections for format.py, lines of text. Memory of processes is
read in the thread of the stack collector alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from exporter.chains.chain import Chain
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.kernel.call_site_rows import CallSiteKey, CallSiteRow
from exporter.kernel.stacks import Stack
from exporter.python.call_site import LINES, CallSite, CallStack
from exporter.stacks.call_sites import CallSites, SlowCalls
from exporter.stacks.format import PythonSection, sampled_line, slow_call_line
from exporter.stacks.line_samples import sample_lines
from exporter.stacks.named_sites import NamedSites
from exporter.stacks.python_stacks import RETRY_NS, PythonStack, PythonStacks
from exporter.stacks.python_tasks import PythonTasks
from exporter.units import NANOSECONDS

READ_NS: Final = NANOSECONDS
"""How often call sites are read."""

FIRST_NS, AGAIN_NS = 2 * NANOSECONDS, 20 * NANOSECONDS
"""Ages of a chain at which lines are evidence: when there are some slow calls, and when there are enough for a sum."""

SITES_MAX: Final = 5
"""Lines of one chain that are named: a person reads them."""
SHARE_MIN: Final = 0.05
"""Part of the time since the chain began; what takes less does not explain it."""

_TIMES: Final = (FIRST_NS, AGAIN_NS)


class SlowCallsOfChain(NamedTuple):
    """The stacks with the most time in slow calls since the onset of a chain, elapsed_ns ago."""

    chain: Chain
    calls: tuple[SlowCalls, ...]
    elapsed_ns: int


class PythonEvidence:
    """due() and slow_calls() are called by a tick, the others by the thread of the collector, as what due() returns is.

    tgids: of the processes with traced calls. read_call_sites: all rows of the kernel.
    """

    def __init__(
        self,
        stacks: PythonStacks,
        named_sites: NamedSites,
        tgids: Callable[[], Collection[int]],
        read_call_sites: Callable[[], Mapping[CallSiteKey, CallSiteRow]],
        tasks: PythonTasks,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.named_sites = named_sites
        self._stacks = stacks
        self._tasks = tasks
        self._tgids = tgids
        self._read_call_sites = read_call_sites
        self._sleep = sleep
        self._sites = CallSites()
        self._next_read_ns = 0
        self._next_look_ns: dict[int, int] = {}
        self._given: dict[str, int] = {}

    def due(self, now_ns: int) -> Callable[[], None] | None:
        """What the collector's thread is to do about processes that have begun or ended, and stacks. Reads the call sites."""
        if now_ns < self._next_read_ns:
            return None
        self._next_read_ns = now_ns + READ_NS
        rows = self._read_call_sites()
        self._sites.update(rows, now_ns)
        has_unnamed = self.named_sites.update(rows, now_ns)
        living = frozenset(self._tgids())
        known, self._next_look_ns = self._next_look_ns, {}
        unknown = []
        for tgid in living:
            self._next_look_ns[tgid] = known.get(tgid, 0)
            if now_ns >= self._next_look_ns[tgid] and not self._stacks.is_final(tgid):
                self._next_look_ns[tgid] = now_ns + RETRY_NS
                unknown.append(tgid)
        if not (unknown or has_unnamed) and known.keys() <= living:
            return None
        return partial(self._follow, unknown, living, now_ns)

    def slow_calls(self, chains: Iterable[Chain], now_ns: int) -> list[SlowCallsOfChain]:
        """Chains whose lines of Python are to be named now."""
        known, self._given = self._given, {}
        found = []
        for chain in chains:
            times = self._given[chain.id] = known.get(chain.id, 0)
            if times < len(_TIMES) and now_ns - chain.opened_ns >= _TIMES[times]:
                self._given[chain.id] = times + 1
                calls = self._sites.since(chain.process, chain.began_ns)
                found.append(SlowCallsOfChain(chain, tuple(calls[:SITES_MAX]), max(now_ns - chain.began_ns, 1)))
        return found

    def can_read(self, tgid: int) -> bool:
        """Whether the process has an interpreter that can be read."""
        return self._stacks.can_read(tgid)

    def call_sites_since(self, process: int, since_ns: int) -> tuple[CallSite, ...]:
        """The named slow calls that returned since then; at most those of the last two minutes. From any thread."""
        slow = self._sites.since(process, since_ns)
        return self.named_sites.named(
            {one.key: one.row._replace(calls=one.calls, total_ns=one.total_ns) for one in slow}
        )

    def _follow(self, unknown: Iterable[int], living: Container[int], now_ns: int) -> None:
        self._stacks.forget(living)
        for tgid in unknown:
            with contextlib.suppress(ProcessGone, NotPossibleHere):
                self._stacks.prepare(tgid, now_ns)
        self.named_sites.name_new()

    def of_stacks(self, tgid: int, stacks: Iterable[Stack]) -> dict[int, PythonSection]:
        """tid -> what its thread does in Python, if it is still in the same call or gap."""
        sections = {}
        for stack in stacks:
            python = self._stacks.of_thread(tgid, stack.tid)
            if python is not None and python.opened_ns == stack.opened_ns:
                section = self._section(tgid, stack.tid, python)
                if stack.call_slot:
                    words = self._stacks.object_words(python, (stack.stack_pointer, stack.call_slot))
                    section = section._replace(objects=python.objects, object_words=words)
                sections[stack.tid] = section
            elif python is None and (found := self._stacks.of_waiting_thread(tgid, stack.tid, stack.opened_ns)):
                waiting_tid, waiting = found
                sections[stack.tid] = self._section(tgid, waiting_tid, waiting, waiting_tid=waiting_tid)
        return sections

    def lines_of(
        self, slow: SlowCallsOfChain, tgid: int, tids: Sequence[int], take: Callable[[int], Stack | None]
    ) -> tuple[str, ...]:
        """Text for a person; () if no line has much of the time. tids: threads that feed the GPU. take: see sample_lines().

        Stacks without any code of the job come last: such is a thread of a library's pool, which waits for work most of the time.
        Takes the time of the samples.
        """
        samples = sample_lines(take, partial(self._sampled, tgid), tids, self._sleep)
        found = []
        slow_places = set()
        for one in slow.calls:
            stack = self.named_sites.stack_of(one.key, one.row)
            if stack is not None:
                slow_places.add((one.key.operation, stack.place))
                found.append((one.total_ns / slow.elapsed_ns, stack.has_own_code, slow_call_line(one, stack)))
        for sample in samples:
            if (sample.operation, sample.stack.place) not in slow_places:
                found.append((sample.share, sample.stack.has_own_code, sampled_line(sample)))
        found.sort(key=lambda item: (not item[1], -item[0]))
        lines = [line for share, _, line in found if share >= SHARE_MIN]
        if not lines:
            return ()
        left_out = len(lines) - SITES_MAX
        more = (f"  and {left_out} more",) if left_out > 0 else ()
        return (LINES, *lines[:SITES_MAX], *more)

    def _sampled(self, tgid: int, state: Stack) -> CallStack | None:
        """The functions of a thread; where it runs none, those of the thread that waits for it, if that is known."""
        frames = self._stacks.sample(tgid, state.tid)
        if not frames and (waiting := self._stacks.of_waiting_thread(tgid, state.tid, state.opened_ns)):
            frames = waiting[1].frames
        return self.named_sites.shown(tgid, frames) if frames else None

    def _section(self, tgid: int, tid: int, stack: PythonStack, *, waiting_tid: int = 0) -> PythonSection:
        stack, tasks, has_gone_on = self._tasks.around(tgid, tid, stack)
        return PythonSection(
            self.named_sites.shown(tgid, stack.frames),
            self._stacks.files_of(tgid),
            is_outer=stack.is_outer,
            waiting_tid=waiting_tid,
            entries=stack.entries,
            tasks=tasks,
            has_gone_on=has_gone_on,
        )
