"""idle: the time in which a server or a notebook has nothing to do is no part of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from exporter.accounting.culprits import NO_CULPRIT
from exporter.accounting.progress import WorkloadProgress
from exporter.causes import Cause
from exporter.chains.idle import IdleTime
from exporter.chains.span import ProcessState, Span
from tests.unit.chains.job import SECOND

MS = 1_000_000
REQUESTS, NAMES = (Cause.OWN_WAIT, NO_CULPRIT), (Cause.NETWORK, NO_CULPRIT)


@dataclass
class Server:
    """Steps of 10 ms in bursts, tick by tick of a quarter of a second."""

    idle: IdleTime = field(default_factory=IdleTime)
    now_ns: int = 100 * SECOND
    step_began_ns: int = 100 * SECOND
    steps: int = 0
    pauses: int = 0
    pause_ns: int = 0
    lost_ns: dict[tuple[Cause, str], int] = field(default_factory=dict)
    is_habit: bool = False
    is_engine: bool = False

    def tick(self, *, may_begin: bool = True) -> ProcessState:
        progress = WorkloadProgress(
            dict(self.lost_ns),
            steps=self.steps,
            steps_ns=self.steps * 10 * MS + self.pause_ns,
            step_began_ns=self.step_began_ns,
            typical_step_ns=10 * MS,
            pauses=self.pauses,
            pause_ns=self.pause_ns,
        )
        seen, has_begun = self.idle.add(
            ProcessState(self.now_ns, progress, is_server=self.is_engine), may_begin=may_begin
        )
        self.is_habit = self.is_habit or has_begun
        return seen

    def work(self, ticks: int = 3, *, may_begin: bool = True) -> ProcessState:
        for _ in range(ticks):
            self.now_ns += SECOND // 4
            self.steps += 25
            self.step_began_ns = self.now_ns
            seen = self.tick(may_begin=may_begin)
        return seen

    def pause(self, waits_for: tuple[Cause, str] | None = REQUESTS, *, may_begin: bool = True) -> ProcessState:
        """Half a second, in one step with 10 ms of work, and seen as a wait."""
        self.now_ns += SECOND // 4
        self.tick(may_begin=may_begin)
        self.now_ns += SECOND // 4
        self.steps += 1
        self.pauses += 1
        self.pause_ns += SECOND // 2 - 10 * MS
        self.step_began_ns = self.now_ns
        if waits_for:
            self.lost_ns[waits_for] = self.lost_ns.get(waits_for, 0) + SECOND // 2 - 10 * MS
        return self.tick(may_begin=may_begin)

    def learn(self) -> ProcessState:
        """Six bursts, each with a pause behind it."""
        for _ in range(6):
            self.work()
            seen = self.pause()
        return seen


class TestPauses:
    """Between bursts of requests."""

    def test_they_are_idle_time_once_they_are_a_habit(self) -> None:
        """Half a second, of which 10 ms were a step."""
        server = Server()
        before = server.learn()
        server.work()
        now = server.pause()

        assert server.is_habit
        assert Span(before, now).wall_ns == 750 * MS + 10 * MS
        assert Span(before, now).steps_ns == 76 * 10 * MS
        assert Span(before, now).lost_ns() == {}

    def test_open_pause_is_idle_time_as_well(self) -> None:
        """A quarter of a second after the last step, of which a usual step is none."""
        server = Server()
        before = server.learn()
        server.now_ns += SECOND // 4

        assert Span(before, server.tick()).wall_ns == 10 * MS

    def test_pause_that_is_no_wait_is_lost(self) -> None:
        """The job was stopped by a signal."""
        server = Server()
        before = server.learn()
        server.pause(waits_for=None)
        now = server.work()

        assert Span(before, now).wall_ns == now.now_ns - before.now_ns

    def test_wait_for_something_else_is_lost(self) -> None:
        """For a name server, which has not been waited for before."""
        server = Server()
        before = server.learn()
        server.pause(waits_for=NAMES)
        now = server.work()

        assert Span(before, now).lost_ns() == {NAMES: 490 * MS}
        assert Span(before, now).wall_ns == now.now_ns - before.now_ns

    def test_wait_that_is_read_a_tick_before_its_pause_is_idle_time(self) -> None:
        """The kernel's tables are not read at the same moment."""
        server = Server()
        before = server.learn()
        server.lost_ns[REQUESTS] += 490 * MS
        server.now_ns += SECOND // 2
        server.tick()
        server.steps, server.pauses, server.pause_ns = server.steps + 1, server.pauses + 1, server.pause_ns + 490 * MS
        server.step_began_ns = server.now_ns
        now = server.tick()

        assert (Span(before, now).wall_ns, Span(before, now).lost_ns()) == (10 * MS, {})

    def test_job_that_is_known_begins_no_habit(self) -> None:
        """Pauses of a job that has never paused are a fault."""
        server = Server()
        for _ in range(6):
            server.work(may_begin=False)
            server.pause(may_begin=False)

        assert not server.is_habit

    def test_long_steps_that_are_no_waits_are_no_habit(self) -> None:
        """Gradients are accumulated in three short steps before each long one."""
        server = Server()
        for _ in range(6):
            server.work()
            server.pause(waits_for=None)

        assert not server.is_habit

    def test_two_pauses_are_no_habit(self) -> None:
        server = Server()
        for _ in range(2):
            server.work()
            server.pause()
        server.work(40)

        assert not server.is_habit


class TestOwnWaits:
    """A server whose every step waits for its request."""

    def test_they_are_idle_time_where_most_seconds_have_them(self) -> None:
        """50 ms of each quarter of a second."""
        server = Server()
        for _ in range(24):
            server.lost_ns[REQUESTS] = server.lost_ns.get(REQUESTS, 0) + 50 * MS
            before = server.work(1)
        server.lost_ns[REQUESTS] += 50 * MS
        now = server.work(1)

        assert server.is_habit
        assert (Span(before, now).wall_ns, Span(before, now).lost_ns()) == (200 * MS, {})

    def test_wait_for_a_program_is_lost(self) -> None:
        """A command, which the accounting names."""
        server, command = Server(), (Cause.OWN_WAIT, "sleep")
        for _ in range(24):
            server.lost_ns[command] = server.lost_ns.get(command, 0) + 50 * MS
            server.work(1)

        assert not server.is_habit


class TestServingEngine:
    """It is known what the job is."""

    @staticmethod
    def _wait(server: Server, waits_for: tuple[Cause, str]) -> ProcessState:
        """A quarter of a second with 5 steps of 10 ms, and 200 ms of waits."""
        server.now_ns += SECOND // 4
        server.steps += 5
        server.step_began_ns = server.now_ns
        server.lost_ns[waits_for] = server.lost_ns.get(waits_for, 0) + 200 * MS
        return server.tick(may_begin=False)

    def test_waits_for_requests_are_idle_time_from_the_start(self) -> None:
        """Its load has just fallen: until then it never waited."""
        server = Server(is_engine=True)
        before = server.work(may_begin=False)
        now = self._wait(server, REQUESTS)

        assert (Span(before, now).wall_ns, Span(before, now).lost_ns()) == (50 * MS, {})

    def test_job_that_is_no_server_loses_them(self) -> None:
        server = Server()
        before = server.work(may_begin=False)
        now = self._wait(server, REQUESTS)

        assert (Span(before, now).wall_ns, Span(before, now).lost_ns()) == (250 * MS, {REQUESTS: 200 * MS})

    def test_wait_for_a_program_is_lost(self) -> None:
        """A command that it has started."""
        server = Server(is_engine=True)
        before = server.work(may_begin=False)
        now = self._wait(server, (Cause.OWN_WAIT, "sleep"))

        assert (Span(before, now).wall_ns, Span(before, now).lost_ns()) == (
            250 * MS,
            {(Cause.OWN_WAIT, "sleep"): 200 * MS},
        )

    def test_pauses_become_a_habit_all_the_same(self) -> None:
        server = Server(is_engine=True)
        before = server.learn()
        server.work()
        now = server.pause()

        assert server.is_habit
        assert Span(before, now).wall_ns == 750 * MS + 10 * MS
