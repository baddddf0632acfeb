"""roster: when a process gets its name, which one, and who is alive."""

from __future__ import annotations

import shutil
from pathlib import Path

from exporter import catalog
from exporter.host.processes import Processes
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.model import Identity
from exporter.workloads.orchestrators.pod_cache import Pod, PodCache
from exporter.workloads.registry import Rename, WorkloadRegistry
from tests.unit.host.process_tree import process, stat_line

START_NS = 47_110_000_000  # 47.11 s after boot is tick 4711, what stat_line() says
DOCKER_ID = "0123456789ab" + "c" * 52
CGROUP = f"0::/system.slice/docker-{DOCKER_ID}.scope\n".encode()
NOBODY = {"environ": b"", "cgroup": b"0::/\n"}


def row(tgid: int = 100, start_ns: int = START_NS, comm: bytes = b"python") -> ProcessRow:
    """A process as the kernel's table has it."""
    return ProcessRow(tgid, start_ns, 7, (0,) * 6, *(0,) * 10, comm)


def communicator(rank: int, ranks: int, digest: int = 1, created_ns: int = 1) -> CommunicatorRow:
    """A communicator of a process."""
    return CommunicatorRow(digest, created_ns, rank, ranks, 1)


def roster_of(proc: Path, **files: bytes) -> WorkloadRegistry:
    """A roster on node gpu7 that has just met process 1, tgid 100, with these files in /proc."""
    roster = WorkloadRegistry(process(proc, 100, **{**NOBODY, **files}), "gpu7", 256)
    roster.admit({1: row()})
    return roster


class TestHoldingBack:
    """No identity before it is known, and no waiting for ever."""

    def test_nobody_is_exported_before_a_tick(self, tmp_path: Path) -> None:
        """A scrape between meeting and naming shows nothing of it."""
        assert roster_of(tmp_path, environ=b"RANK=3\0").identities() == {}

    def test_rank_of_the_environment_names_at_once(self, tmp_path: Path) -> None:
        """The first tick."""
        roster = roster_of(tmp_path, environ=b"RANK=3\0")
        roster.update_identities({})

        assert roster.identities() == {1: Identity(node="gpu7", rank="3")}

    def test_process_without_a_rank_is_held_back_two_ticks_and_no_more(self, tmp_path: Path) -> None:
        """Most CUDA processes have no rank at all."""
        roster = roster_of(tmp_path)
        exported = []
        for _ in range(3):
            roster.update_identities({})
            exported.append(roster.identities())

        assert exported == [{}, {}, {1: Identity(node="gpu7")}]

    def test_rank_that_nccl_tells_in_time_names_at_once(self, tmp_path: Path) -> None:
        """No rename: the first name is the right one."""
        roster = roster_of(tmp_path)
        roster.update_identities({})
        renames = roster.update_identities({1: [communicator(5, 8)]})

        assert (renames, roster.identities()) == ([], {1: Identity(node="gpu7", rank="5")})


class TestRanks:
    """Which rank, and when it changes."""

    def test_environment_comes_before_nccl(self, tmp_path: Path) -> None:
        """The communicator may be a part of the job."""
        roster = roster_of(tmp_path, environ=b"RANK=11\0")
        roster.update_identities({1: [communicator(3, 8)]})

        assert roster.identities()[1].rank == "11"

    def test_rank_that_comes_later_is_a_rename(self, tmp_path: Path) -> None:
        """The caller moves the totals."""
        roster = roster_of(tmp_path)
        for _ in range(3):
            roster.update_identities({})

        assert roster.update_identities({1: [communicator(5, 8)]}) == [Rename(1, Identity(node="gpu7"))]
        assert roster.identities() == {1: Identity(node="gpu7", rank="5")}

    def test_rename_is_told_once(self, tmp_path: Path) -> None:
        """The tick after it is quiet."""
        roster = roster_of(tmp_path)
        for communicators in ({}, {}, {}, {1: [communicator(5, 8)]}):
            roster.update_identities(communicators)

        assert roster.update_identities({1: [communicator(5, 8)]}) == []

    def test_rank_outlives_its_communicator(self, tmp_path: Path) -> None:
        """ncclCommDestroy at the end of a job must not rename it."""
        roster = roster_of(tmp_path)
        roster.update_identities({1: [communicator(5, 8)]})

        assert roster.update_identities({}) == []
        assert roster.identities()[1].rank == "5"

    def test_smaller_communicator_made_later_changes_nothing(self, tmp_path: Path) -> None:
        """A tensor-parallel group inside the world."""
        roster = roster_of(tmp_path)
        roster.update_identities({1: [communicator(5, 8)]})

        assert roster.update_identities({1: [communicator(5, 8), communicator(1, 2, digest=2, created_ns=2)]}) == []

    def test_communicator_whose_making_was_not_seen_says_nothing(self, tmp_path: Path) -> None:
        """Rank -1: the exporter came late."""
        roster = roster_of(tmp_path)
        for _ in range(3):
            roster.update_identities({1: [CommunicatorRow(0, 1, -1, 0, 1)]})

        assert roster.identities()[1].rank == ""

    def test_communicators_of_another_process_say_nothing(self, tmp_path: Path) -> None:
        """Process 2's rank is not process 1's."""
        roster = roster_of(tmp_path)
        for _ in range(3):
            roster.update_identities({2: [communicator(5, 8)]})

        assert roster.identities()[1].rank == ""


class TestMeeting:
    """What /proc says of a process, if it is still that process."""

    def test_container_is_read_from_the_cgroup(self, tmp_path: Path) -> None:
        """Its first 12 digits."""
        roster = roster_of(tmp_path, environ=b"RANK=3\0", cgroup=CGROUP)
        roster.update_identities({})

        assert roster.identities()[1] == Identity(node="gpu7", rank="3", container="0123456789ab")

    def test_reused_tgid_gets_no_wrong_labels(self, tmp_path: Path) -> None:
        """The tgid has another process by now, whose rank and container are not ours."""
        stat = stat_line(100, start_time_ticks=9_999)
        roster = roster_of(tmp_path, stat=stat, environ=b"RANK=3\0", cgroup=CGROUP)
        for _ in range(3):
            roster.update_identities({})

        assert roster.identities()[1] == Identity(node="gpu7")

    def test_start_one_tick_apart_is_the_same_process(self, tmp_path: Path) -> None:
        """The kernel rounds ns to ticks its own way."""
        roster = roster_of(tmp_path, stat=stat_line(100, start_time_ticks=4_712), environ=b"RANK=3\0")
        roster.update_identities({})

        assert roster.identities()[1].rank == "3"

    def test_of_two_with_one_tgid_the_older_is_not_there(self, tmp_path: Path) -> None:
        """It has ended, and what /proc says is of the other, even if that one began at the same moment."""
        roster = WorkloadRegistry(process(tmp_path, 100, **{**NOBODY, "environ": b"RANK=3\0"}), "gpu7", 256)
        roster.admit({1: row(), 2: row()})
        for _ in range(3):
            roster.update_identities({})

        assert roster.identities() == {1: Identity(node="gpu7"), 2: Identity(node="gpu7", rank="3")}

    def test_vanished_process_has_the_node_s_name_only(self, tmp_path: Path) -> None:
        """It ended before anyone looked; its totals are exported all the same."""
        roster = WorkloadRegistry(Processes(tmp_path), "gpu7", 256)
        roster.admit({1: row()})
        for _ in range(3):
            roster.update_identities({})

        assert roster.identities() == {1: Identity(node="gpu7")}

    def test_proc_is_read_once(self, tmp_path: Path) -> None:
        """A process that is known keeps what was found when it was met."""
        roster = roster_of(tmp_path, environ=b"RANK=3\0")
        (tmp_path / "100" / "environ").write_bytes(b"RANK=4\0")
        roster.admit({1: row()})
        roster.update_identities({})

        assert roster.identities()[1].rank == "3"

    def test_info_has_everything_else_one_may_join_on(self, tmp_path: Path) -> None:
        """In the order of the catalogue's labels."""
        environ = b"RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0TORCHELASTIC_RUN_ID=night\0SLURM_JOB_ID=77\0SLURM_JOB_NAME=pretraining\0"
        roster = roster_of(tmp_path, environ=environ, cgroup=CGROUP)
        ((series, value),) = roster.workload_info()[1].items()

        assert (series.metric, value) == (catalog.workload.INFO, 1)
        assert dict(zip(series.metric.labels, series.labels, strict=True)) == {
            "pid": "100",
            "comm": "python",
            "local_rank": "1",
            "world_size": "8",
            "run_id": "night",
            "slurm_job_id": "77",
            "slurm_job_name": "pretraining",
            "slurm_partition": "",
            "slurm_account": "",
            "pod_uid": "",
            "container_id": DOCKER_ID,
            "container_runtime": "docker",
            "unit": f"docker-{DOCKER_ID}.scope",
        }

    def test_engine_is_what_the_command_line_says(self, tmp_path: Path) -> None:
        """Its own, or else that of whoever started it: parent 1 of every process here."""
        assert roster_of(tmp_path / "a", cmdline=b"VLLM::EngineCore\0\0").engines() == {1: "vllm"}
        process(tmp_path / "b", 1, cmdline=b"python3\0-m\0sglang.launch_server\0")
        assert roster_of(tmp_path / "b", cmdline=b"python3\0-c\0spawn_main()\0").engines() == {1: "sglang"}

    def test_engine_is_what_the_libraries_say_where_nobody_else_does(self, tmp_path: Path) -> None:
        """A training script."""
        maps = b"7f00-7f10 r--p 00000000 fe:00 26      /torch/lib/libtorch_cuda.so\n"

        roster = roster_of(tmp_path, cmdline=b"python3\0train.py\0", maps=maps)
        roster.update_identities({})

        assert roster.engines() == {1: "pytorch"}

    def test_libraries_of_few_are_looked_at_in_a_tick(self, tmp_path: Path) -> None:
        """They take milliseconds each, and a full node has a thousand. One that ends meanwhile is passed over."""
        maps = b"7f00-7f10 r--p 00000000 fe:00 26      /torch/lib/libtorch_cuda.so\n"
        for tgid in (101, 102, 103, 104, 105):
            processes = process(tmp_path, tgid, stat=stat_line(tgid), **NOBODY, maps=maps)
        roster = WorkloadRegistry(processes, "gpu7", 256)
        roster.admit({number: row(tgid=100 + number) for number in (1, 2, 3, 4, 5)})
        roster.remove(2)
        shutil.rmtree(tmp_path / "103")
        found = []
        for _ in range(3):
            roster.update_identities({})
            found.append(sorted(roster.engines()))

        assert found == [[1], [1, 4], [1, 4, 5]]

    def test_prefix_of_titles_is_read_from_the_environment(self, tmp_path: Path) -> None:
        """Where somebody has changed it."""
        environ = b"VLLM_PROCESS_NAME_PREFIX=llama\0"

        assert roster_of(tmp_path, environ=environ, cmdline=b"llama::EngineCore\0").engines() == {1: "vllm"}

    def test_process_that_is_no_engine_has_none(self, tmp_path: Path) -> None:
        """Neither has one of which nothing can be read."""
        roster = roster_of(tmp_path, cmdline=b"./simulation\0")
        roster.admit({1: row(), 2: row(tgid=200)})
        roster.update_identities({})

        assert roster.engines() == {}

    def test_engines_are_not_looked_for_where_nobody_asks(self, tmp_path: Path) -> None:
        """The collector is switched off."""
        processes = process(tmp_path, 100, **{**NOBODY, "cmdline": b"VLLM::EngineCore\0"})
        roster = WorkloadRegistry(processes, "gpu7", 256, with_engines=False)
        roster.admit({1: row()})

        assert roster.engines() == {}

    def test_hostile_comm_is_made_printable(self, tmp_path: Path) -> None:
        """prctl(PR_SET_NAME) takes any bytes."""
        roster = WorkloadRegistry(process(tmp_path, 100, **NOBODY), "gpu7", 256)
        roster.admit({1: row(comm=b'a\n"\xff')})
        (series,) = roster.workload_info()[1]

        assert series.labels[1] == 'a\ufffd"\ufffd'


class TestLeaving:
    """The end of a process."""

    def test_dismissed_process_is_no_longer_exported(self, tmp_path: Path) -> None:
        """Its identity is handed over for its last totals."""
        roster = roster_of(tmp_path, environ=b"RANK=3\0")
        roster.update_identities({})

        assert roster.remove(1) == Identity(node="gpu7", rank="3")
        assert (roster.identities(), roster.workload_info(), len(roster)) == ({}, {}, 0)

    def test_process_that_ends_while_held_back_gets_the_name_it_would_have_got(self, tmp_path: Path) -> None:
        """Short jobs count too."""
        roster = roster_of(tmp_path, cgroup=CGROUP)

        assert roster.remove(1) == Identity(node="gpu7", container="0123456789ab")

    def test_process_never_met_has_no_identity(self, tmp_path: Path) -> None:
        """An exit told twice is harmless."""
        roster = roster_of(tmp_path)
        roster.remove(1)

        assert roster.remove(1) is None

    def test_process_alive_is_not_gone(self, tmp_path: Path) -> None:
        """Same tgid, same start."""
        roster = roster_of(tmp_path)
        roster.queue_liveness_checks()

        assert roster.find_ended() == []

    def test_start_one_tick_apart_is_not_gone(self, tmp_path: Path) -> None:
        """The kernel rounds ns to ticks its own way."""
        roster = roster_of(tmp_path, stat=stat_line(100, start_time_ticks=4_710))
        roster.queue_liveness_checks()

        assert roster.find_ended() == []

    def test_process_without_a_proc_entry_is_gone(self, tmp_path: Path) -> None:
        """Its exit event was lost."""
        roster = roster_of(tmp_path)
        shutil.rmtree(tmp_path / "100")
        roster.queue_liveness_checks()

        assert roster.find_ended() == [1]

    def test_process_whose_tgid_was_reused_is_gone(self, tmp_path: Path) -> None:
        """Another start time."""
        roster = roster_of(tmp_path)
        (tmp_path / "100" / "stat").write_bytes(stat_line(100, start_time_ticks=9_999))
        roster.queue_liveness_checks()

        assert roster.find_ended() == [1]

    def test_roll_is_called_sixteen_at_a_time(self, tmp_path: Path) -> None:
        """Of seventeen, all without a /proc entry; whoever has taken leave meanwhile is not called."""
        roster = WorkloadRegistry(Processes(tmp_path), "gpu7", 256)
        roster.admit({number: row(tgid=1000 + number) for number in range(1, 19)})
        roster.queue_liveness_checks()
        first = roster.find_ended()
        roster.remove(17)

        assert (first, roster.find_ended(), roster.find_ended()) == (list(range(1, 17)), [18], [])


class TestRoom:
    """For so many workloads at a time."""

    OTHER = Identity(node="gpu7", rank="other", container="other")

    def roster(self, proc: Path) -> WorkloadRegistry:
        """For two; ranks 0, 1 and 2 have come, in this order."""
        for rank in range(3):
            process(proc, 100 + rank, environ=b"RANK=%d\0" % rank, cgroup=b"0::/\n")
        roster = WorkloadRegistry(Processes(proc), "gpu7", 2)
        for rank in range(3):
            roster.admit({rank: row(tgid=100 + rank)})
            roster.update_identities({})
        return roster

    def test_who_comes_too_late_is_other(self, tmp_path: Path) -> None:
        """The first two keep their names."""
        names = self.roster(tmp_path).identities()

        assert [names[process] for process in (0, 1, 2)] == [
            Identity(node="gpu7", rank="0"),
            Identity(node="gpu7", rank="1"),
            self.OTHER,
        ]

    def test_name_stays_when_there_is_room_again(self, tmp_path: Path) -> None:
        """A series that has begun goes on."""
        roster = self.roster(tmp_path)
        roster.remove(0)
        roster.expire(())
        roster.update_identities({})

        assert roster.identities()[2] == self.OTHER

    def test_room_is_given_again_when_no_totals_are_kept(self, tmp_path: Path) -> None:
        """Rank 0 has ended; while its totals are exported its room is taken."""
        roster = self.roster(tmp_path)
        ended = roster.remove(0)
        assert ended is not None
        process(tmp_path, 103, environ=b"RANK=3\0", cgroup=b"0::/\n")
        process(tmp_path, 104, environ=b"RANK=4\0", cgroup=b"0::/\n")
        roster.expire([ended])
        roster.admit({3: row(tgid=103)})
        roster.update_identities({})
        roster.expire(())
        roster.admit({4: row(tgid=104)})
        roster.update_identities({})

        assert (roster.identities()[3], roster.identities()[4]) == (self.OTHER, Identity(node="gpu7", rank="4"))

    def test_further_processes_of_a_workload_need_no_room(self, tmp_path: Path) -> None:
        """Rank 0 comes again."""
        roster = self.roster(tmp_path)
        process(tmp_path, 105, environ=b"RANK=0\0", cgroup=b"0::/\n")
        roster.admit({5: row(tgid=105)})
        roster.update_identities({})

        assert roster.identities()[5] == Identity(node="gpu7", rank="0")

    def test_others_have_no_info(self, tmp_path: Path) -> None:
        """There may be thousands, and each would be a series."""
        assert self.roster(tmp_path).workload_info().keys() == {0, 1}


IDENTIFIER = "5" * 64
POD_UID = "11111111-2222-3333-4444-555555555555"
IN_POD = f"0::/kubepods/pod{POD_UID}/{IDENTIFIER}\n".encode()
UNNAMED = Identity("gpu7", "3", container="5" * 12)


def pod(container: str = "") -> Pod:
    """Pod job-0 of namespace train, with the name of its container where it is known."""
    return Pod("train", "job-0", (POD_UID,), {IDENTIFIER: container} if container else {})


class TestNamesFromOrchestrator:
    """Identities with names of a pod and a container."""

    def registry(self, proc: Path, pods: PodCache) -> WorkloadRegistry:
        """With a process of rank 3 in a pod's container."""
        processes = process(proc, 100, **{**NOBODY, "environ": b"RANK=3\0", "cgroup": IN_POD})
        registry = WorkloadRegistry(processes, "gpu7", 256, pods)
        registry.admit({1: row()})
        return registry

    def test_known_container_is_named_on_the_first_tick(self, tmp_path: Path) -> None:
        pods = PodCache()
        pods.put("job-0", pod("worker"))
        registry = self.registry(tmp_path, pods)
        registry.update_identities({})

        assert registry.identities() == {1: Identity("gpu7", "3", container="worker", namespace="train", pod="job-0")}

    def test_unknown_container_is_held_back_for_20_ticks(self, tmp_path: Path) -> None:
        """Then the container's id stands in for its name."""
        registry = self.registry(tmp_path, PodCache())
        exported = []
        for _ in range(21):
            registry.update_identities({})
            exported.append(registry.identities())

        assert exported == [{}] * 20 + [{1: UNNAMED}]

    def test_process_is_not_held_back_while_the_orchestrator_does_not_answer(self, tmp_path: Path) -> None:
        registry = self.registry(tmp_path, PodCache(is_worth_waiting_for=False))
        registry.update_identities({})

        assert registry.identities() == {1: UNNAMED}

    def test_process_in_no_container_is_not_held_back(self, tmp_path: Path) -> None:
        processes = process(tmp_path, 100, **{**NOBODY, "environ": b"RANK=3\0"})
        registry = WorkloadRegistry(processes, "gpu7", 256, PodCache())
        registry.admit({1: row()})
        registry.update_identities({})

        assert registry.identities() == {1: Identity("gpu7", "3")}

    def test_late_name_is_a_new_identity(self, tmp_path: Path) -> None:
        """First the pod's name, then the container's; each is a Rename."""
        pods = PodCache(is_worth_waiting_for=False)
        registry = self.registry(tmp_path, pods)
        registry.update_identities({})
        pods.put("job-0", pod())
        of_pod = registry.update_identities({})
        pods.put("job-0", pod("worker"))
        of_container = registry.update_identities({})

        assert of_pod == [Rename(1, UNNAMED)]
        assert of_container == [Rename(1, Identity("gpu7", "3", container="5" * 12, namespace="train", pod="job-0"))]
        assert registry.identities() == {1: Identity("gpu7", "3", container="worker", namespace="train", pod="job-0")}

    def test_name_stays_when_the_pod_is_gone_before_its_process(self, tmp_path: Path) -> None:
        pods = PodCache()
        pods.put("job-0", pod("worker"))
        registry = self.registry(tmp_path, pods)
        registry.update_identities({})
        pods.delete("job-0")

        assert registry.update_identities({}) == []
