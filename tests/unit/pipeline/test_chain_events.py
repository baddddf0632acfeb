"""pipeline.chain_events: one event for whatever happens to a chain, with what is known of its process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.chains.chain import Chain, Change, Present, Transition
from exporter.chains.event import ChainEvent, ChainProcess
from exporter.chains.evidence import Evidence
from exporter.clock import Moment
from exporter.model import Identity
from exporter.pipeline.chain_events import ChainEvents
from exporter.pipeline.running_processes import RunningProcesses
from tests.support.chains import SECOND, a_chain
from tests.unit.chains.remedies.contexts import NODE
from tests.unit.host.process_tree import process, stat_line

RANK = Identity(node="gpu7", rank="3", container="0123456789ab")
NOW = Moment(monotonic_ns=11 * SECOND, unix_ns=1_800_000_000 * SECOND)
CGROUPS = b"7:cpu,cpuacct:/docker/abc/\n1:memory:/other\n0::/unified\n"


class Sampled:
    """Stacks that have been sampled already."""

    def __init__(self, found: list[Evidence]) -> None:
        self.found = found

    def tick(self, *_arguments: object) -> list[Evidence]:
        return self.found


class Received:
    """A sink that keeps the events."""

    def __init__(self) -> None:
        self.events: list[ChainEvent] = []

    def on_chain_event(self, event: ChainEvent) -> None:
        self.events.append(event)


def event_of(proc: Path, transition: Transition, tgid: int = 100, since_ns: int = 0) -> ChainEvent:
    """The event of a transition, where process 100 runs on CPUs 0 to 3 and 8 of ten."""
    processes = process(proc, 100, cgroup=CGROUPS)
    (proc / "100" / "status").write_text("Name:\tpython\nCpus_allowed_list:\t0-3,8\n")
    (proc / "online").write_text("0-9\n")
    running = RunningProcesses(processes, NODE, hierarchies={}, affinity=lambda _tid: {0, 8}, cpus=proc)
    received = Received()
    chain_process = ChainProcess(RANK, tgid, (777,), (since_ns,), (100, 102))
    process(proc, 102, status=b"Cpus_allowed_list:\t4-7\n")
    for one in (100, 102, 777):
        (proc / str(one) / "task").mkdir(parents=True, exist_ok=True)
    (proc / "777").mkdir(exist_ok=True)
    (proc / "777" / "status").write_text("Cpus_allowed_list:\t0-9\n")
    ChainEvents(processes, [received], boot_ns=lambda: 60 * SECOND, running=running).transition(
        transition, chain_process, NOW
    )
    (event,) = received.events
    return event


class TestStartTimes:
    """Process 100 was started 10 s after the boot."""

    def started(self, proc: Path, since_ns: int, boot_seconds: int = 60) -> tuple[int, ...]:
        """NOW is 11 s of CLOCK_MONOTONIC, and boot_seconds after the boot."""
        processes = process(proc, 100, stat=stat_line(100, start_time_ticks=1000))
        received = Received()
        events = ChainEvents(processes, [received], boot_ns=lambda: boot_seconds * SECOND)
        events.transition(Transition(Change.OPENED, a_chain()), ChainProcess(RANK, 0, (100,), (since_ns,)), NOW)
        return received.events[0].culprit_start_ticks

    def test_start_of_a_culprit_is_recorded(self, tmp_path: Path) -> None:
        """It is 50 s old, and time is charged to it for a second."""
        assert self.started(tmp_path, 10 * SECOND) == (1000,)

    def test_process_that_is_younger_than_what_is_charged_is_another_one(self, tmp_path: Path) -> None:
        """It is 4 s old, and time is charged to this id for ten seconds."""
        assert self.started(tmp_path, 1 * SECOND, boot_seconds=14) == (0,)

    def test_start_is_not_known_if_it_is_not_known_since_when_time_is_charged(self, tmp_path: Path) -> None:
        assert self.started(tmp_path, 0) == (0,)


class TestTransition:
    def test_event_has_the_process_and_the_time(self, tmp_path: Path) -> None:
        event = event_of(tmp_path, Transition(Change.OPENED, a_chain()))

        assert (event.change, event.at_unix_ns, event.identity, event.tgid) == (Change.OPENED, NOW.unix_ns, RANK, 100)

    def test_commands_are_for_the_processes_that_run(self, tmp_path: Path) -> None:
        """Culprit 777 was started 10 s after the boot, and time is charged to it for a second. CPU 9 is free."""
        process(tmp_path, 777, stat=stat_line(777, start_time_ticks=1000), cgroup=CGROUPS)
        event = event_of(tmp_path, Transition(Change.OPENED, a_chain()), since_ns=10 * SECOND)

        assert event.commands == ("ps -o pid,lstart,psr,ni,pcpu,cgroup,args -p 777", "taskset -acp 9 777")

    def test_commands_are_left_out_where_the_processes_have_ended(self, tmp_path: Path) -> None:
        event = event_of(tmp_path, Transition(Change.OPENED, a_chain()), tgid=101)

        assert event.commands == ()


class TestEvidence:
    def test_sampled_stacks_are_an_event_of_their_chain(self, tmp_path: Path) -> None:
        found = Evidence(a_chain(), ChainProcess(RANK, 100, (777,)), ("thread 2 is at", "  0x1000"))
        received = Received()
        events = ChainEvents(process(tmp_path, 100, cgroup=CGROUPS), [received], [Sampled([found])])
        events.evidence([a_chain()], [], lambda _chain: ChainProcess(RANK, 100, (777,)), NOW)
        (event,) = received.events

        assert (event.change, event.chain_id) == (Change.EVIDENCE, "1" * 32)
        assert event.evidence == ("thread 2 is at", "  0x1000")

    @pytest.mark.parametrize(("open_now", "lost_share"), [([a_chain(lost_share=0.9)], 0.9), ([], 0.5)])
    def test_chain_is_as_it_is_now(self, tmp_path: Path, open_now: list[Chain], lost_share: float) -> None:
        """It was worse than half when the evidence came; one that is resolved by then is as it was."""
        found = Evidence(a_chain(lost_share=0.5), ChainProcess(RANK, 100, ()), ("thread 2 is at",))
        received = Received()
        events = ChainEvents(process(tmp_path, 100, cgroup=CGROUPS), [received], [Sampled([found])])
        events.evidence(open_now, [], lambda _chain: ChainProcess(RANK, 100, ()), NOW)
        (event,) = received.events

        assert event.lost_share == lost_share


class TestUpdate:
    """What holds now of a chain that goes on, for a sink that keeps it."""

    def after(self, proc: Path, *seconds_and_shares: tuple[float, float]) -> list[tuple[Change, float]]:
        """What the keeper has after ticks at which so much was lost; the log has only the transition."""
        log, kept = Received(), Received()
        events = ChainEvents(process(proc, 100, cgroup=CGROUPS), [log, kept], keepers=[kept])
        events.transition(Transition(Change.OPENED, a_chain()), ChainProcess(RANK, 100, ()), NOW)
        for second, lost_share in seconds_and_shares:
            chain = replace(a_chain(), now=Present(lost_share, 0.5, (("stress-ng", 1.0),)))
            now = NOW._replace(monotonic_ns=NOW.monotonic_ns + round(second * SECOND))
            events.update([chain], lambda _chain: ChainProcess(RANK, 100, (777,)), now)
        assert [one.change for one in log.events] == [Change.OPENED]
        return [(one.change, one.present.lost_share) for one in kept.events[1:]]

    def test_it_is_sent_when_it_has_changed(self, tmp_path: Path) -> None:
        assert self.after(tmp_path, (0, 0.5), (1.0, 0.5), (1.25, 0.4)) == [(Change.UPDATED, 0.4)]

    def test_one_that_changes_at_every_tick_is_sent_once_a_second(self, tmp_path: Path) -> None:
        ticks = [(tick / 4, 0.5 - tick / 100) for tick in range(9)]

        assert self.after(tmp_path, *ticks) == [(Change.UPDATED, 0.46), (Change.UPDATED, 0.42)]

    def many(self, proc: Path, *ticks: tuple[float, float, int]) -> list[list[ChainEvent]]:
        """What is sent at each tick of twelve chains. ticks: second, lost share, process of the culprit."""
        kept = Received()
        events = ChainEvents(process(proc, 100, cgroup=CGROUPS), [kept], keepers=[kept])
        chains = [a_chain(id=f"{number:032x}") for number in range(12)]
        sent = []
        for second, lost_share, culprit in ticks:
            now = NOW._replace(monotonic_ns=NOW.monotonic_ns + round(second * SECOND))
            changed = [replace(one, now=Present(lost_share, 0.5, ((f"hog-{culprit}", 1.0),))) for one in chains]
            events.update(changed, lambda _chain, tgid=culprit: ChainProcess(RANK, 100, (tgid,)), now)
            sent.append(kept.events)
            kept.events = []
        return sent

    def test_of_many_chains_four_are_read_and_eight_sent_in_a_tick(self, tmp_path: Path) -> None:
        """Each in its turn."""
        first = [(0, 0.5, 777), (1, 0.4, 777), (1.25, 0.4, 777), (1.5, 0.4, 777)]
        found = self.many(tmp_path, *first, (4, 0.3, 777), (4.25, 0.3, 777))

        assert [len(events) for events in found] == [0, 4, 4, 4, 8, 4]
        for ticks in (found[:4], found[4:]):
            assert len({one.chain_id for events in ticks for one in events}) == 12

    def test_processes_are_always_those_of_the_culprit_beside_them(self, tmp_path: Path) -> None:
        """Another program is to blame: a chain whose processes have not been read again waits for the next tick."""
        ticks = [(tick / 4, 0.5 - tick / 50, 777) for tick in range(8)] + [
            (20 + tick / 4, 0.4, 888) for tick in range(8)
        ]
        sent = [event for events in self.many(tmp_path, *ticks) for event in events]

        assert {(one.culprit, one.culprit_tgids) for one in sent} == {("hog-777", (777,)), ("hog-888", (888,))}
        assert len({one.chain_id for one in sent if one.culprit == "hog-888"}) == 12

    def test_less_than_a_percent_is_no_change(self, tmp_path: Path) -> None:
        assert self.after(tmp_path, (0, 0.5), (1.0, 0.503)) == []

    def test_it_is_sent_every_ten_seconds_without_a_change(self, tmp_path: Path) -> None:
        """Its duration grows."""
        ticks = [(second, 0.5) for second in range(21)]

        assert len(self.after(tmp_path, *ticks)) == 2

    def test_event_has_the_present_culprits_and_a_remedy_against_them(self, tmp_path: Path) -> None:
        kept = Received()
        events = ChainEvents(process(tmp_path, 100, cgroup=CGROUPS), [kept], keepers=[kept])
        events.update([a_chain()], lambda _chain: ChainProcess(RANK, 100, (777,)), NOW)
        chain = replace(a_chain(), now=Present(0.4, 0.5, (("backup", 1.0),)))
        later = NOW._replace(monotonic_ns=NOW.monotonic_ns + SECOND)
        events.update([chain], lambda _chain: ChainProcess(RANK, 100, (888,)), later)
        (event,) = kept.events

        assert (event.culprit, event.culprit_tgids) == ("backup", (888,))
        assert event.remedy.startswith("backup ")
