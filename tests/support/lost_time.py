"""The lost time of one process, from what the rows of the kernel say: states, charges, wake-up paths, and who was waited for."""

from __future__ import annotations

from exporter.accounting.attribution import LostTime, WakeupPaths
from exporter.accounting.exposed import Exposed
from exporter.accounting.sharing import Growth
from exporter.accounting.workers import WorkDone
from exporter.kernel.abi import Awaited, Culprit, ThreadState, Victim, Waker
from exporter.kernel.awaited_rows import AwaitedBy
from exporter.kernel.thread_rows import BlameKey, WakeupRow
from tests.support.tables import By, states_of

SECOND = 1_000_000_000
_NOT_EXPOSED = Exposed()
STRESS = BlameKey(1, Victim.STEP, Culprit.TASK, 666, 0, 7, b"stress")
OWN_OF_WORKER = BlameKey(1, Victim.WORKER, Culprit.OWN, 100, 0, 7, b"python")
CC_OF_OTHER = BlameKey(1, Victim.OTHER, Culprit.TASK, 667, 0, 7, b"cc1")
TEE = AwaitedBy(801, Awaited.PROCESS, b"tee")
XZ = AwaitedBy(802, Awaited.PROCESS, b"xz")
LOGGER_THREAD = AwaitedBy(0, Awaited.THREAD, b"logger")
WORKER = AwaitedBy(804, Awaited.WORKER, b"python")


class Books:
    """The loss of one process. Sums are cumulative, as in the kernel."""

    def __init__(self) -> None:
        self.loss = LostTime(lambda charged, _: {name: name for name in charged})
        self.blame: dict[BlameKey, int] = {}
        self._charged: Growth[BlameKey] = Growth()
        self.wakeup_paths: WakeupPaths = {}
        self._worked_ns: dict[ThreadState, int] = {}
        self._steps = 0
        self.disks: dict[str, int] = {}  # what was slept for disks since the last tick, by who used them
        self.awaited: dict[
            tuple[ThreadState, AwaitedBy], int
        ] = {}  # what was slept since the last tick, by who was waited for

    def charge(self, key: BlameKey, charged_ns: int) -> None:
        """A wait for a CPU."""
        self.blame[key] = self.blame.get(key, 0) + charged_ns

    def wakeup_path(
        self, state: ThreadState, states_ns: By, abstained_ns: int = 0, *, waker: Waker = Waker.PROCESS
    ) -> None:
        """What the wakers of sleeps in `state` have done so far."""
        row = WakeupRow(1, sum(states_ns.values()), abstained_ns, states_of(states_ns))
        self.wakeup_paths[state] = {**self.wakeup_paths.get(state, {}), waker: row}

    def steps(self, count: int, worked_ns: By) -> None:
        """So many steps, for each of which a worker has done this, whether or not it was waited for."""
        self._steps += count
        for state, ns in worked_ns.items():
            self._worked_ns[state] = self._worked_ns.get(state, 0) + count * ns

    def book(
        self,
        stalled_ns: By | None = None,
        *,
        exposed: Exposed = _NOT_EXPOSED,
        at: float = 0.0,
        is_blame_read: bool = True,
    ) -> dict[tuple[str, str], int]:
        """One tick; returns all that is lost so far."""
        charged = self._charged.since(dict(self.blame)) if is_blame_read else {}
        now_ns = int(at * SECOND)
        disks, self.disks = self.disks, {}
        awaited, self.awaited = self.awaited, {}
        self.loss.update(
            exposed,
            stalled_ns or {},
            self.wakeup_paths,
            charged,
            now_ns,
            disks=disks,
            awaited=awaited,
            work=self._work(),
            is_blame_read=is_blame_read,
        )
        return self.lost()

    def _work(self) -> WorkDone:
        row = WakeupRow(self._steps, sum(self._worked_ns.values()), 0, states_of(self._worked_ns))
        return WorkDone({Waker.PROCESS: row} if self._steps else {}, self._steps)

    def lost(self) -> dict[tuple[str, str], int]:
        """By cause and culprit."""
        return {(cause.value, culprit): lost_ns for (cause, culprit), lost_ns in self.loss.lost().items()}
