"""perf_events: the kernel's list of CPUs, and what follows it. The events themselves are tested in tests/kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import KernelRefused
from exporter.kernel import perf_events
from exporter.kernel.perf_events import PerCpu, cpu_numbers, online_cpus


class Machine:
    """CPUs that come and go, and what is open on them."""

    def __init__(self, cpus: Path) -> None:
        self.cpus = cpus
        self.refused: set[int] = set()
        self.opened: list[int] = []
        self.closed: list[int] = []

    def online(self, *numbers: int) -> None:
        """These are online now."""
        (self.cpus / "online").write_text(",".join(map(str, numbers)) + "\n")
        for number in numbers:
            (self.cpus / f"cpu{number}" / "topology").mkdir(parents=True, exist_ok=True)

    def restarted(self, number: int) -> None:
        """Was offline and is online again: its folder is a new one."""
        topology = self.cpus / f"cpu{number}" / "topology"
        topology.rename(topology.with_name("before"))
        topology.mkdir()

    def open_one(self, cpu: int) -> int:
        """As an event."""
        if cpu in self.refused:
            raise KernelRefused(f"CPU {cpu}")
        self.opened.append(cpu)
        return cpu

    def per_cpu(self) -> PerCpu[int]:
        """What is under test."""
        return PerCpu(self.open_one, self.closed.append, self.cpus)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """CPUs 0 and 1 are online."""
    machine = Machine(tmp_path)
    machine.online(0, 1)
    return machine


class TestCpuNumbers:
    """/sys/devices/system/cpu/online."""

    @pytest.mark.parametrize(
        ("text", "numbers"),
        [
            ("0\n", [0]),
            ("0-3\n", [0, 1, 2, 3]),
            ("0-3,8\n", [0, 1, 2, 3, 8]),
            ("1,4-5,7\n", [1, 4, 5, 7]),
            ("10-10", [10]),
        ],
    )
    def test_ranges_and_single_numbers(self, text: str, numbers: list[int]) -> None:
        """CPUs that are offline leave gaps."""
        assert cpu_numbers(text) == numbers


class TestOnlineCpus:
    """Which CPUs are online, and since when."""

    def test_cpu_without_a_folder_is_online_all_the_same(self, tmp_path: Path) -> None:
        """Some containers see a part of /sys."""
        (tmp_path / "online").write_text("0-1\n")

        assert online_cpus(tmp_path) == {0: 0, 1: 0}

    def test_time_online_changes_when_a_cpu_was_offline_in_between(self, machine: Machine) -> None:
        before = online_cpus(machine.cpus)
        machine.restarted(1)
        after = online_cpus(machine.cpus)

        assert (before[0] == after[0], before[1] == after[1]) == (True, False)


class TestPerCpu:
    """Something that is open on each online CPU."""

    def test_one_is_open_on_each(self, machine: Machine) -> None:
        assert machine.per_cpu().opened() == [0, 1]

    def test_new_cpus_are_returned(self, machine: Machine) -> None:
        found = machine.per_cpu()
        machine.online(0, 1, 7)

        assert (found.follow(), found.follow(), found.opened()) == ([7], [], [0, 1, 7])

    def test_cpu_that_went_offline_is_closed(self, machine: Machine) -> None:
        found = machine.per_cpu()
        machine.online(0)
        found.follow()

        assert (machine.closed, found.opened()) == ([1], [0])

    def test_cpu_that_was_offline_in_between_is_opened_again(self, machine: Machine) -> None:
        found = machine.per_cpu()
        machine.restarted(1)
        new = found.follow()

        assert (new, machine.closed, machine.opened) == ([1], [1], [0, 1, 1])

    def test_refusal_at_the_start_leaves_nothing_open(self, machine: Machine) -> None:
        machine.refused = {1}
        with pytest.raises(KernelRefused):
            machine.per_cpu()

        assert (machine.opened, machine.closed) == ([0], [0])

    def test_refusal_of_a_new_cpu_is_raised_once_and_the_others_are_open(self, machine: Machine) -> None:
        found = machine.per_cpu()
        machine.refused = {5}
        machine.online(0, 1, 5, 6)
        with pytest.raises(KernelRefused, match="CPU 5"):
            found.follow()

        assert (found.follow(), found.opened()) == ([], [0, 1, 6])

    def test_cpu_that_goes_offline_while_it_is_opened_is_left_out(self, machine: Machine) -> None:
        """It is opened when it comes back."""
        found = machine.per_cpu()
        machine.online(0, 1, 5)

        def gone(cpu: int) -> int:
            machine.online(0, 1)
            raise KernelRefused(f"CPU {cpu}")

        found._open_one = gone
        left_out = found.follow()
        found._open_one = machine.open_one
        machine.online(0, 1, 5)

        assert (left_out, found.follow()) == ([], [5])

    def test_close_closes_all(self, machine: Machine) -> None:
        found = machine.per_cpu()
        found.close()

        assert (sorted(machine.closed), found.opened()) == ([0, 1], [])


class TestParanoid:
    @pytest.mark.parametrize(("value", "is_so"), [("-1", False), ("2", False), ("3", True), ("4", True), ("x", False)])
    def test_values_above_2_take_cap_sys_admin(self, tmp_path: Path, value: str, is_so: bool) -> None:
        """Those of Debian's and Ubuntu's kernels."""
        setting = tmp_path / "perf_event_paranoid"
        setting.write_text(f"{value}\n")

        assert perf_events.is_paranoid(setting) is is_so

    def test_kernel_without_the_setting_takes_none(self, tmp_path: Path) -> None:
        assert not perf_events.is_paranoid(tmp_path / "none")
