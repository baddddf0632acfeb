"""facts: what the programs need to know about the kernel, from its own texts."""

from __future__ import annotations

import pytest

from exporter.kernel import facts


class TestPreemptCount:
    """The distance from the run queue of the same CPU."""

    def test_variable_of_its_own(self) -> None:
        """Before 6.2, and from 6.15 on."""
        assert facts.preempt_count_offset({"runqueues": 178_752, "__preempt_count": 86_064}, None) == -92_688

    def test_member_of_the_hot_variables(self) -> None:
        """From 6.2 to 6.14."""
        assert facts.preempt_count_offset({"runqueues": 1000, "pcpu_hot": 400}, 8) == -592

    @pytest.mark.parametrize(
        "offsets", [{}, {"runqueues": 1000}, {"__preempt_count": 400}, {"runqueues": 1000, "pcpu_hot": 400}]
    )
    def test_unknown_is_zero(self, offsets: dict[str, int]) -> None:
        """On arm64, and on kernels without these symbols: no wake-up path is resolved."""
        assert facts.preempt_count_offset(offsets, None) == 0


class TestCgroups:
    """/proc/cgroups: name, hierarchy, number of groups, whether it is enabled."""

    @pytest.mark.parametrize(("hierarchy", "expected"), [(3, True), (0, False)])
    def test_controller_with_a_hierarchy_of_its_own_is_cgroup_v1(self, hierarchy: int, expected: bool) -> None:
        """Controllers of cgroup v2 share hierarchy 0."""
        text = f"#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t5\t1\t1\ncpu\t{hierarchy}\t41\t1\n"

        assert facts.has_cpu_cgroup_v1(text) is expected

    def test_kernel_without_the_file_has_no_cgroup_v1(self) -> None:
        """Built with cgroup v2 only."""
        assert facts.has_cpu_cgroup_v1("") is False


class TestGpuDevices:
    """/proc/devices."""

    def test_majors_are_all_character_devices_of_the_driver(self) -> None:
        """No block device, whatever its name."""
        text = "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n  8 sd\n195 nvidia-not\n"

        assert facts.gpu_majors(text) == (195, 510)

    def test_at_most_four_majors_are_kept(self) -> None:
        text = "Character devices:\n" + "".join(f"{number} nvidia-{number}\n" for number in range(300, 306))

        assert facts.gpu_majors(text) == (300, 301, 302, 303)


class TestCpus:
    """/sys/devices/system/cpu/possible."""

    @pytest.mark.parametrize(("text", "expected"), [("0-191\n", 192), ("0\n", 1), ("0-3,8-11\n", 12), ("", 1024)])
    def test_cpus_are_counted_up_to_the_last_number(self, text: str, expected: int) -> None:
        """Each number is an index."""
        assert facts.possible_cpus(text) == expected
