"""Injectors do what they say, and nothing of it is left, however their body ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.faults.injectors import NotPossible, cgroups, cpu, disk, interrupts, memory, network, quota, signals

pytestmark = pytest.mark.end_to_end
MIB = 1 << 20
T = TypeVar("T")


class BodyError(Exception):
    """Raised on purpose."""


@contextmanager
def or_skip() -> Iterator[None]:
    """What is not possible here is skipped, with its reason."""
    try:
        yield
    except NotPossible as reason:
        pytest.skip(str(reason))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Context managers that are left when the test ends."""
    with ExitStack() as found:
        yield found


def made(stack: ExitStack, manager: AbstractContextManager[T]) -> T:
    """Entered, or the test is skipped."""
    with or_skip():
        return stack.enter_context(manager)


def fails_within(manager: Callable[[], AbstractContextManager[object]], look: Callable[[], object]) -> object:
    """What `look` sees within a body that then raises."""
    seen: list[object] = []

    def body() -> None:
        with manager():
            seen.append(look())
            raise BodyError

    with or_skip(), pytest.raises(BodyError):
        body()
    return seen[0]


def state_of(tgid: int) -> str:
    """The letter of its state."""
    return Path(f"/proc/{tgid}/stat").read_text().rpartition(")")[2].split()[0]


def processes_named(comm: str) -> list[int]:
    """tgids of all processes with this comm."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == comm:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether it is true within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if condition():  # asked once: a moment later it may be over
            return True
        time.sleep(0.01)
    return False


class TestHierarchy:
    """Which cgroup hierarchy has a controller."""

    def mounts(self, folder: Path, *lines: str) -> Path:
        """A file like /proc/self/mounts."""
        path = folder / "mounts"
        path.write_text("".join(f"{line} 0 0\n" for line in lines))
        return path

    def test_version_1_has_it_in_its_options(self, tmp_path: Path) -> None:
        """Two controllers may share a hierarchy."""
        mounts = self.mounts(tmp_path, "none /a cgroup rw,cpuset", "none /b cgroup rw,cpu,cpuacct")

        assert cgroups.hierarchy("cpu", mounts) == (Path("/b"), 1)

    def test_version_2_has_it_in_a_file(self, tmp_path: Path) -> None:
        """The root's cgroup.controllers."""
        (tmp_path / "cgroup.controllers").write_text("cpu io memory\n")
        mounts = self.mounts(tmp_path, f"none {tmp_path} cgroup2 rw")

        assert cgroups.hierarchy("io", mounts) == (tmp_path, 2)

    def test_without_it_nothing_is_possible(self, tmp_path: Path) -> None:
        """A part of another controller's name is not it."""
        with pytest.raises(NotPossible, match="'cpu'"):
            cgroups.hierarchy("cpu", self.mounts(tmp_path, "none /a cgroup rw,cpuset"))


class TestGroups:
    """Control groups."""

    def test_a_group_goes_with_the_process_still_in_it(self) -> None:
        """It moves to the root, and lives."""
        with ExitStack() as stack:
            group = made(stack, cgroups.group("cpu", "test"))
            line = [*cpu.in_groups([group.path]), "sleep", "60"]
            process = stack.enter_context(subprocess.Popen(line))
            stack.callback(process.kill)
            assert comes_true(lambda: group.tgids() == [process.pid])
            with cgroups.group("cpu", "other") as other:
                (other.path / "cgroup.procs").write_text(str(process.pid))
            assert not other.path.exists()
            assert process.poll() is None

        assert cgroups.left_behind() == []

    def test_a_value_that_is_refused_says_why(self, stack: ExitStack) -> None:
        """The file's name is in the text."""
        group = made(stack, cgroups.group("cpu", "test"))
        file = "cpu.shares" if group.version == 1 else "cpu.weight"

        with pytest.raises(NotPossible, match=file):
            group.write(file, "nonsense")

    def test_a_quota_is_taken_back(self, stack: ExitStack) -> None:
        """40,000 us of 100,000, then what was there before."""
        group = made(stack, cgroups.group("cpu", "test"))
        file = "cpu.cfs_quota_us" if group.version == 1 else "cpu.max"
        before = group.read(file)

        within = fails_within(lambda: quota.quota(group, 40), lambda: group.read(file).split()[0])

        assert within == "40000"
        assert group.read(file) == before

    def test_a_limit_of_memory_is_taken_back(self, stack: ExitStack) -> None:
        """64 MiB, then what was there before."""
        group = made(stack, cgroups.group("memory", "test"))
        file = "memory.limit_in_bytes" if group.version == 1 else "memory.max"
        before = group.read(file)

        within = fails_within(lambda: memory.limit(group, 64 * MIB), lambda: group.read(file))

        assert within == str(64 * MIB)
        assert group.read(file) == before

    def test_a_group_is_full_only_within(self, stack: ExitStack) -> None:
        """A writer uses up 32 MiB; then it is gone, and the limit with it."""
        group = made(stack, cgroups.group("memory", "test"))
        path = made(stack, disk.file_of(MIB))
        file = "memory.limit_in_bytes" if group.version == 1 else "memory.max"
        before = group.read(file)

        def look() -> bool:
            return comes_true(lambda: memory.used_bytes(group) > 24 * MIB)

        assert fails_within(lambda: memory.reclaim(group, path, 32 * MIB), look) is True
        assert comes_true(lambda: processes_named(memory.WRITER) == [])
        assert group.read(file) == before

    def test_process_that_wants_more_than_its_group_may_have_is_killed(self, stack: ExitStack) -> None:
        """The kernel counts it; then the limit is what it was."""
        group = made(stack, cgroups.group("memory", "test"))
        file = "memory.limit_in_bytes" if group.version == 1 else "memory.max"
        before = group.read(file)
        line = [
            *cpu.in_groups([group.path]),
            sys.executable,
            "-S",
            "-c",
            "held = bytearray(64 << 20); print(len(held))",
        ]

        def look() -> int:
            return subprocess.run(line, stdout=subprocess.DEVNULL, check=False).returncode

        assert fails_within(lambda: memory.oom_kill(group, 16 * MIB), look) == -9
        assert memory.oom_kills(group) == 1
        assert group.read(file) == before


def received_packets(cpu_number: int) -> int:
    """Soft interrupts NET_RX of a CPU."""
    lines = (line.split() for line in Path("/proc/softirqs").read_text().splitlines())
    return next(int(words[1 + cpu_number]) for words in lines if words[0] == "NET_RX:")


class TestInterrupts:
    """Packets to receive."""

    def test_they_come_to_one_cpu_and_end(self) -> None:
        """Hundreds of them; the interfaces are in namespaces of their own."""
        before = received_packets(0)

        def look() -> bool:
            return comes_true(lambda: received_packets(0) > before + 300)

        assert fails_within(lambda: interrupts.storm(0, "1", 0.2), look) is True
        assert comes_true(lambda: processes_named(interrupts.FLOOD) == [])
        assert not Path("/sys/class/net", interrupts.SENDER).exists()


class TestNeighbours:
    """Processes beside the job."""

    def test_hogs_use_the_cpu_and_end(self) -> None:
        """Two, by their name, in a group of their own."""

        def look() -> bool:
            return comes_true(lambda: len(processes_named(cpu.HOG)) >= 2)

        assert fails_within(lambda: cpu.hogs(2), look) is True
        assert comes_true(lambda: processes_named(cpu.HOG) == [])
        assert cgroups.left_behind() == []

    def test_a_named_shell_has_its_priority(self) -> None:
        """Field 19 of stat: nice 19."""
        with or_skip(), cpu.named_shell("fault-test", cpu.SPIN, nice=19) as (process,):
            stat = Path(f"/proc/{process.pid}/stat")
            assert comes_true(lambda: "(fault-test)" in stat.read_text())
            assert stat.read_text().rpartition(")")[2].split()[16] == "19"

    def test_a_stopped_process_goes_on(self) -> None:
        """After its time, and after an exception as well."""
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                with pytest.raises(BodyError), signals.stopped(process.pid, 0.2):
                    raise BodyError
                assert comes_true(lambda: state_of(process.pid) == "S")
            finally:
                process.kill()


class TestNetwork:
    """A server, and a wire."""

    def fetch(self, server: network.Server, size_bytes: int = 1000) -> float:
        """Seconds until an answer is there."""
        began = time.monotonic()
        with socket.create_connection((server.address, server.port)) as client:
            client.sendall(size_bytes.to_bytes(8, "little"))
            left = size_bytes
            while left:
                left -= len(client.recv(left))
        return time.monotonic() - began

    def test_server_answers_late_while_ordered_to(self) -> None:
        """And at once before and after that."""
        with network.server() as server:
            before = self.fetch(server)
            with server.late(0.3):
                within = self.fetch(server), self.fetch(server)
            after = self.fetch(server)

        assert min(within) >= 0.3
        assert max(before, after) < 0.3

    def test_one_answer_is_late_once(self) -> None:
        """The next one is not."""
        with network.server() as server, server.once_late(0.3):
            assert self.fetch(server) >= 0.3
            assert self.fetch(server) < 0.3

    def test_server_ends_with_its_block(self) -> None:
        """However that ends."""
        served = fails_within(network.server, lambda: None)

        assert served is None
        with network.server() as server:
            pass
        assert server.process.wait(10) is not None

    def test_namespaces_go_with_what_is_in_them(self) -> None:
        """However their block ends."""
        seen = fails_within(network.wire, lambda: len(network.left_behind()))

        assert seen == 2
        assert network.left_behind() == []


class TestDisk:
    """A disk of the job's own."""

    def test_a_file_is_removed(self) -> None:
        """It has the requested size."""
        with disk.file_of(MIB) as path:
            assert path.stat().st_size == MIB
        assert not path.exists()

    def test_a_loop_device_is_detached(self) -> None:
        """It can be read, and then it has no file any more."""
        devices: list[Path] = []

        def attached() -> Iterator[Path]:
            with disk.loop_device(MIB) as device:
                devices.append(device)
                yield device

        size = fails_within(contextmanager(attached), lambda: len(devices[0].read_bytes()))

        assert size == MIB
        assert not Path(f"/sys/block/{devices[0].name}/loop/backing_file").exists()

    def test_reads_are_slow_only_within(self, stack: ExitStack) -> None:
        """2 MiB at 4 MiB a second take at least a fifth of a second."""
        group = made(stack, cgroups.group("blkio", "test"))
        device = made(stack, disk.loop_device(2 * MIB))
        line = [*cpu.in_groups([group.path]), "dd", f"if={device}", "of=/dev/null", "bs=256k", "iflag=direct"]

        def seconds() -> float:
            start = time.monotonic()
            subprocess.run(line, check=True, capture_output=True)
            return time.monotonic() - start

        within = fails_within(lambda: disk.slow_reads(group, device, 4 * MIB), seconds)

        assert isinstance(within, float)
        assert within > 0.2
        assert min(seconds() for _ in range(5)) < 0.2

    def test_a_file_can_be_in_the_cache_at_the_groups_expense(self, stack: ExitStack) -> None:
        """8 MiB more than before."""
        group = made(stack, cgroups.group("memory", "test"))
        path = made(stack, disk.file_of(8 * MIB))
        disk.forget_pages(path)
        before = memory.used_bytes(group)
        memory.fill_cache(group, path)

        assert memory.used_bytes(group) - before >= 7 * MIB
