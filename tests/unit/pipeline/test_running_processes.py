"""pipeline.running_processes: the job and its culprits, from a fake /proc and fake hierarchies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.causes import Cause
from exporter.chains.remedies import ProcessContext
from exporter.chains.remedies.commands import CPU, CPUSET, MEMORY
from exporter.chains.remedies.context import ControlGroup, ManagedBy, NodeContext, RunningProcess
from exporter.host.cgroups import Hierarchy
from exporter.host.processes import Processes
from exporter.pipeline.running_processes import RunningProcesses
from tests.unit.host.process_tree import process

JOB, CULPRIT, OTHER = 100, 200, 300
STARTED = 4711
CONTAINER = "ab" * 32
DOCKER = f"docker-{CONTAINER}.scope"


def stat(tgid: int, *, parent: int = 1, state: str = "S", flags: int = 0, policy: int = 0) -> bytes:
    """A line of /proc/TGID/stat, whose first fields behind the name are 3, 4 and so on."""
    fields = [state, parent, 7, 7, 0, -1, flags, *(12 * [0]), STARTED, *(18 * [0]), policy, *(11 * [0])]
    return f"{tgid} (python) {' '.join(map(str, fields))}\n".encode()


NODE = NodeContext(has_machine_ids=True)


class Machine:
    """A machine of eight CPUs. The job may run on CPUs 0 and 1; a thread of it, on CPU 2. CPU 7 is isolated."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.folder = folder
        (folder / "online").write_text("0-7\n")
        (folder / "isolated").write_text("7\n")
        self.add(JOB, cpus="0-1", cgroup="0::/job\n")
        (self.proc / str(JOB) / "task" / "101").mkdir()
        self.add(CULPRIT)
        self.hierarchies: dict[str, Hierarchy] = {}

    def add(self, tgid: int, *, cpus: str = "0-7", cgroup: str = "0::/other\n", of_stat: bytes = b"") -> None:
        status = f"Name:\tpython\nCpus_allowed_list:\t{cpus}\n".encode()
        process(self.proc, tgid, stat=of_stat or stat(tgid), status=status, cgroup=cgroup.encode())
        (self.proc / str(tgid) / "task" / str(tgid)).mkdir(parents=True)

    def context(
        self,
        cause: Cause = Cause.CPU_CONTENTION,
        *,
        culprit: int = CULPRIT,
        start_ticks: int = STARTED,
        traced: tuple[int, ...] = (JOB,),
        node: NodeContext = NODE,
    ) -> ProcessContext:
        running = RunningProcesses(
            Processes(self.proc),
            node,
            hierarchies=self.hierarchies,
            affinity=lambda tid: {2} if tid == 101 else (),
            cpus=self.folder,
        )
        known = ProcessContext(JOB, culprit_tgids=(culprit,), culprit_start_ticks=(start_ticks,))
        return running.add_to(known, cause, traced)

    def culprit(
        self, of_stat: bytes = b"", cgroup: str = "0::/other\n", node: NodeContext | None = None
    ) -> RunningProcess:
        """Process 300, with this stat or in this control group."""
        self.add(OTHER, of_stat=of_stat, cgroup=cgroup)
        (found,) = self.context(culprit=OTHER, node=node or NODE).culprits
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


class TestCpus:
    def test_job_has_those_of_all_its_threads(self, machine: Machine) -> None:
        job = machine.context().job

        assert job is not None
        assert job.cpus == {0, 1, 2}

    def test_free_are_those_that_no_gpu_process_may_use(self, machine: Machine) -> None:
        """Without an isolated one."""
        machine.add(OTHER, cpus="4-5")

        assert machine.context(traced=(JOB, OTHER)).free_cpus == {3, 6}

    def test_free_cpus_are_read_only_where_a_remedy_uses_them(self, machine: Machine) -> None:
        assert machine.context(Cause.BLOCK_IO).free_cpus == frozenset()

    def test_process_of_very_many_threads_may_use_all(self, machine: Machine, tmp_path: Path) -> None:
        """Its threads are not read then."""
        machine.add(OTHER, cpus="0")
        for tid in range(1000, 1000 + 4096):
            (machine.proc / str(OTHER) / "task" / str(tid)).touch()

        assert machine.context(traced=(JOB, OTHER)).free_cpus == frozenset()

    def test_process_that_cannot_be_read_may_use_all(self, machine: Machine) -> None:
        (machine.proc / str(OTHER) / "status").mkdir(parents=True)

        assert machine.context(traced=(JOB, OTHER)).free_cpus == frozenset()


class TestCulprits:
    def test_process_that_runs_is_one(self, machine: Machine) -> None:
        (found,) = machine.context().culprits

        assert (found.tgid, found.cpus) == (CULPRIT, frozenset(range(8)))
        assert [found.is_kernel_thread, found.is_realtime, found.is_of_a_job] == [False, False, False]

    def test_process_that_is_not_known_to_be_the_same_is_none(self, machine: Machine) -> None:
        """Its id may have been reused."""
        assert machine.context(start_ticks=0).culprits == ()

    def test_process_with_the_same_id_in_another_namespace_is_none(self, machine: Machine) -> None:
        """The kernel gives ids of the machine."""
        assert machine.context(node=NodeContext()).culprits == ()

    @pytest.mark.parametrize("state", ["Z", "X"])
    def test_process_that_has_ended_is_none(self, machine: Machine, state: str) -> None:
        machine.add(OTHER, of_stat=stat(OTHER, state=state))

        assert machine.context(culprit=OTHER).culprits == ()
        assert machine.context(culprit=OTHER + 1).culprits == ()

    def test_causes_without_culprits_read_none(self, machine: Machine) -> None:
        assert machine.context(Cause.LOCK).culprits == ()

    def test_nothing_is_a_culprit_of_a_job_that_has_ended(self, machine: Machine) -> None:
        (machine.proc / str(JOB) / "stat").write_bytes(stat(JOB, state="Z"))
        context = machine.context()

        assert (context.job, context.culprits) == (None, ())

    def test_kernel_thread_has_a_flag(self, machine: Machine) -> None:
        assert machine.culprit(stat(OTHER, flags=0x0020_0040)).is_kernel_thread

    @pytest.mark.parametrize("policy", [1, 2])
    def test_policies_fifo_and_rr_are_realtime(self, machine: Machine, policy: int) -> None:
        assert machine.culprit(stat(OTHER, policy=policy)).is_realtime

    def test_child_of_a_gpu_process_is_of_a_job(self, machine: Machine) -> None:
        assert machine.culprit(stat(OTHER, parent=JOB)).is_of_a_job

    def test_launcher_of_the_job_is_of_it_and_its_other_children_are_not(self, machine: Machine) -> None:
        """Such as a shell, or the first process of a container."""
        (machine.proc / str(JOB) / "stat").write_bytes(stat(JOB, parent=OTHER))
        (machine.proc / str(CULPRIT) / "stat").write_bytes(stat(CULPRIT, parent=OTHER))

        assert machine.culprit().is_of_a_job
        assert not machine.context().culprits[0].is_of_a_job

    def test_autogroup_is_read_where_the_kernel_has_them(self, machine: Machine) -> None:
        (machine.proc / str(CULPRIT) / "autogroup").write_text("/autogroup-25 nice 0\n")

        assert machine.context(node=replace(NODE, has_autogroups=True)).culprits[0].autogroup == "/autogroup-25"
        assert machine.context().culprits[0].autogroup == ""


class TestControlGroups:
    def test_each_controller_of_version_1_has_its_mount_and_path(self, machine: Machine, tmp_path: Path) -> None:
        """The group at or above that has the controller's files is named as well."""
        (tmp_path / "cpu/a").mkdir(parents=True)
        (tmp_path / "cpu/a/cpu.shares").touch()
        machine.hierarchies = {
            CPU: Hierarchy(tmp_path / "cpu", 1, CPU),
            MEMORY: Hierarchy(tmp_path / "memory", 1, MEMORY),
        }
        found = machine.culprit(cgroup="4:memory:/m\n3:cpu,cpuacct:/a/b\n0::/unified\n")

        assert found.groups == {
            CPU: ControlGroup(str(tmp_path / "cpu"), 1, "/a/b", "/a"),
            MEMORY: ControlGroup(str(tmp_path / "memory"), 1, "/m", ""),
        }

    def test_cpus_of_a_group_are_those_of_the_nearest_with_the_controller(
        self, machine: Machine, tmp_path: Path
    ) -> None:
        (tmp_path / "unified/a").mkdir(parents=True)
        (tmp_path / "unified/a/cpuset.cpus.effective").write_text("2-3\n")
        machine.hierarchies = {CPUSET: Hierarchy(tmp_path / "unified", 2, CPUSET)}

        assert machine.culprit(cgroup="0::/a/b\n").cpuset == {2, 3}


class TestManagers:
    @pytest.mark.parametrize(
        ("path", "managed_by"),
        [
            (f"/system.slice/{DOCKER}", ManagedBy(CONTAINER, "docker", DOCKER)),
            (f"/system.slice/{DOCKER}/system.slice/sshd.service", ManagedBy(CONTAINER, "docker", "")),
            ("/system.slice/backup.service", ManagedBy("", "systemd", "backup.service")),
            ("/user.slice/user-1000.slice/session-3.scope", ManagedBy()),
            ("/slurm/uid_1000/job_7/step_0", ManagedBy("", "slurm", "", "7")),
            ("/", ManagedBy()),
        ],
        ids=["container", "unit that a container claims", "service", "session of a user", "batch job", "root"],
    )
    def test_only_those_of_the_machine_count(self, machine: Machine, path: str, managed_by: ManagedBy) -> None:
        """A user, a service and a container choose the names below theirs."""
        assert machine.culprit(cgroup=f"0::{path}\n").managed_by == managed_by
