"""pipeline.process_context: cgroup and CPUs of a process, from a fake /proc."""

from __future__ import annotations

from pathlib import Path

from exporter.chains.remedies import ProcessContext
from exporter.host.processes import Processes
from exporter.pipeline.process_context import process_context
from tests.unit.host.process_tree import process


def with_status(proc: Path, cgroup: bytes) -> ProcessContext:
    """The context of process 100, which may run on CPUs 0 to 3 and 8."""
    processes = process(proc, 100, cgroup=cgroup)
    (proc / "100" / "status").write_text("Name:\tpython\nCpus_allowed_list:\t0-3,8\n")
    return process_context(processes, 100)


class TestContext:
    """What a remedy's commands need."""

    def test_cgroup_and_cpus(self, tmp_path: Path) -> None:
        """In the unified hierarchy."""
        assert with_status(tmp_path, b"0::/kubepods/pod1\n") == ProcessContext(100, "/kubepods/pod1", "0-3,8")

    def test_hierarchy_of_the_cpu_controller_comes_first(self, tmp_path: Path) -> None:
        """Version 1 has a hierarchy per controller."""
        found = with_status(tmp_path, b"7:cpu,cpuacct:/docker/abc\n1:memory:/other\n0::/unified\n")

        assert found.cgroup == "/docker/abc"

    def test_path_is_one_of_the_machine(self, tmp_path: Path) -> None:
        """In a cgroup namespace of the exporter's own, in which the commands are not run. Its bytes are kept."""
        proc = process(tmp_path, 100, cgroup=b"0::/../\xff\n", status=b"").proc
        found = process_context(Processes(proc, lambda text: text.replace("/..", "/kubepods")), 100)

        assert found.cgroup == "/kubepods/\udcff"

    def test_process_that_has_ended_has_its_number_alone(self, tmp_path: Path) -> None:
        """/proc has no such process."""
        assert process_context(process(tmp_path, 100), 101) == ProcessContext(101)
