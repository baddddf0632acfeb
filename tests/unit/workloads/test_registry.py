"""registry: when a process gets its identity, which one, and which processes are running."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exporter import catalog
from exporter.host.processes import Processes
from exporter.kernel.process_rows import CommunicatorRow
from exporter.model import Identity
from exporter.workloads.orchestrators.pod_cache import Pod, PodCache
from exporter.workloads.registry import Rename, WorkloadRegistry
from tests.support.direct_reads import DirectReads
from tests.unit.host.process_tree import process, stat_line
from tests.unit.workloads.registries import CGROUP, DOCKER_ID, NO_CULPRIT, communicator, registry_of, row


class TestHoldingBack:
    """A process has no identity until it is known, for a limited time."""

    def test_new_process_has_no_identity_before_a_tick(self, tmp_path: Path) -> None:
        """A scrape in between does not export it."""
        assert registry_of(tmp_path, environ=b"RANK=3\0").identities() == {}

    def test_process_with_a_rank_has_its_identity_at_the_first_tick(self, tmp_path: Path) -> None:
        registry = registry_of(tmp_path, environ=b"RANK=3\0")
        registry.update_identities({})

        assert registry.identities() == {1: Identity(node="gpu7", rank="3")}

    def test_process_without_a_rank_is_held_back_for_two_ticks(self, tmp_path: Path) -> None:
        """Most CUDA processes have no rank at all."""
        registry = registry_of(tmp_path)
        exported = []
        for _ in range(3):
            registry.update_identities({})
            exported.append(registry.identities())

        assert exported == [{}, {}, {1: Identity(node="gpu7")}]

    def test_rank_of_nccl_during_the_hold_back_is_no_rename(self, tmp_path: Path) -> None:
        """The first identity is the right one."""
        registry = registry_of(tmp_path)
        registry.update_identities({})
        renames = registry.update_identities({1: [communicator(5, 8)]})

        assert (renames, registry.identities()) == ([], {1: Identity(node="gpu7", rank="5")})


class TestRanks:
    """Which rank, and when it changes."""

    def test_environment_is_preferred_to_nccl(self, tmp_path: Path) -> None:
        """The communicator may be a part of the job."""
        registry = registry_of(tmp_path, environ=b"RANK=11\0")
        registry.update_identities({1: [communicator(3, 8)]})

        assert registry.identities()[1].rank == "11"

    def test_rank_that_comes_later_is_a_rename(self, tmp_path: Path) -> None:
        """The caller moves the totals."""
        registry = registry_of(tmp_path)
        for _ in range(3):
            registry.update_identities({})

        assert registry.update_identities({1: [communicator(5, 8)]}) == [Rename(1, Identity(node="gpu7"))]
        assert registry.identities() == {1: Identity(node="gpu7", rank="5")}

    def test_rename_is_returned_once(self, tmp_path: Path) -> None:
        registry = registry_of(tmp_path)
        for communicators in ({}, {}, {}, {1: [communicator(5, 8)]}):
            registry.update_identities(communicators)

        assert registry.update_identities({1: [communicator(5, 8)]}) == []

    def test_rank_outlives_its_communicator(self, tmp_path: Path) -> None:
        """ncclCommDestroy at the end of a job does not rename it."""
        registry = registry_of(tmp_path)
        registry.update_identities({1: [communicator(5, 8)]})

        assert registry.update_identities({}) == []
        assert registry.identities()[1].rank == "5"

    def test_smaller_communicator_created_later_changes_nothing(self, tmp_path: Path) -> None:
        """A tensor-parallel group within the world."""
        registry = registry_of(tmp_path)
        registry.update_identities({1: [communicator(5, 8)]})

        assert registry.update_identities({1: [communicator(5, 8), communicator(1, 2, digest=2, created_ns=2)]}) == []

    def test_communicator_created_before_the_exporter_started_has_no_rank(self, tmp_path: Path) -> None:
        """Its rank is -1."""
        registry = registry_of(tmp_path)
        for _ in range(3):
            registry.update_identities({1: [CommunicatorRow(0, 1, -1, 0, 1)]})

        assert registry.identities()[1].rank == ""

    def test_communicators_of_another_process_do_not_count(self, tmp_path: Path) -> None:
        registry = registry_of(tmp_path)
        for _ in range(3):
            registry.update_identities({2: [communicator(5, 8)]})

        assert registry.identities()[1].rank == ""


class TestAdmission:
    """What is read from /proc, if it is still the same process."""

    def test_container_is_read_from_the_cgroup(self, tmp_path: Path) -> None:
        """Its first 12 digits."""
        registry = registry_of(tmp_path, environ=b"RANK=3\0", cgroup=CGROUP)
        registry.update_identities({})

        assert registry.identities()[1] == Identity(node="gpu7", rank="3", container="0123456789ab")

    def test_reused_tgid_gets_no_wrong_labels(self, tmp_path: Path) -> None:
        """The tgid belongs to another process by now, with another rank and container."""
        stat = stat_line(100, start_time_ticks=9_999)
        registry = registry_of(tmp_path, stat=stat, environ=b"RANK=3\0", cgroup=CGROUP)
        for _ in range(3):
            registry.update_identities({})

        assert registry.identities()[1] == Identity(node="gpu7")

    def test_start_one_tick_apart_is_the_same_process(self, tmp_path: Path) -> None:
        """The kernel rounds nanoseconds to ticks differently."""
        registry = registry_of(tmp_path, stat=stat_line(100, start_time_ticks=4_712), environ=b"RANK=3\0")
        registry.update_identities({})

        assert registry.identities()[1].rank == "3"

    def test_older_of_two_processes_with_one_tgid_has_no_labels(self, tmp_path: Path) -> None:
        """It has ended, and /proc shows the other one, even if that started at the same moment."""
        processes = process(tmp_path, 100, **{**NO_CULPRIT, "environ": b"RANK=3\0"})
        registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256)
        registry.admit({1: row(), 2: row()})
        for _ in range(3):
            registry.update_identities({})

        assert registry.identities() == {1: Identity(node="gpu7"), 2: Identity(node="gpu7", rank="3")}

    def test_process_that_ended_before_admission_has_only_the_node(self, tmp_path: Path) -> None:
        """Its totals are exported all the same."""
        registry = WorkloadRegistry(Processes(tmp_path), DirectReads(Processes(tmp_path)), "gpu7", 256)
        registry.admit({1: row()})
        for _ in range(3):
            registry.update_identities({})

        assert registry.identities() == {1: Identity(node="gpu7")}

    def test_proc_is_read_once(self, tmp_path: Path) -> None:
        """At admission."""
        registry = registry_of(tmp_path, environ=b"RANK=3\0")
        (tmp_path / "100" / "environ").write_bytes(b"RANK=4\0")
        registry.admit({1: row()})
        registry.update_identities({})

        assert registry.identities()[1].rank == "3"

    def test_info_has_all_labels_to_join_on(self, tmp_path: Path) -> None:
        """In the order of the catalogue."""
        environ = b"RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0TORCHELASTIC_RUN_ID=night\0SLURM_JOB_ID=77\0SLURM_JOB_NAME=pretraining\0"
        registry = registry_of(tmp_path, environ=environ, cgroup=CGROUP)
        ((series, value),) = registry.workload_info()[1].items()

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

    def test_engine_is_found_by_the_command_line(self, tmp_path: Path) -> None:
        """Its own, or that of its parent, here process 1."""
        assert registry_of(tmp_path / "a", cmdline=b"VLLM::EngineCore\0\0").engines() == {1: "vllm"}
        process(tmp_path / "b", 1, cmdline=b"python3\0-m\0sglang.launch_server\0")
        assert registry_of(tmp_path / "b", cmdline=b"python3\0-c\0spawn_main()\0").engines() == {1: "sglang"}

    def test_engine_is_found_by_the_libraries_without_another_sign(self, tmp_path: Path) -> None:
        """A training script."""
        maps = b"7f00-7f10 r--p 00000000 fe:00 26      /torch/lib/libtorch_cuda.so\n"

        registry = registry_of(tmp_path, cmdline=b"python3\0train.py\0", maps=maps)
        registry.update_identities({})

        assert registry.engines() == {1: "pytorch"}

    def test_libraries_of_two_processes_are_read_in_a_tick(self, tmp_path: Path) -> None:
        """They take milliseconds each, and a full node has a thousand processes. One known to have ended takes no turn."""
        maps = b"7f00-7f10 r--p 00000000 fe:00 26      /torch/lib/libtorch_cuda.so\n"
        for tgid in (101, 102, 103, 104, 105):
            processes = process(tmp_path, tgid, stat=stat_line(tgid), **NO_CULPRIT, maps=maps)
        registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256)
        registry.admit({number: row(tgid=100 + number) for number in (1, 2, 3, 4, 5)})
        registry.remove(2)
        shutil.rmtree(tmp_path / "103")
        found = []
        for _ in range(2):
            registry.update_identities({})
            found.append(sorted(registry.engines()))

        assert found == [[1], [1, 4, 5]]

    def test_prefix_of_titles_is_read_from_the_environment(self, tmp_path: Path) -> None:
        environ = b"VLLM_PROCESS_NAME_PREFIX=llama\0"

        assert registry_of(tmp_path, environ=environ, cmdline=b"llama::EngineCore\0").engines() == {1: "vllm"}

    def test_other_process_has_no_engine(self, tmp_path: Path) -> None:
        """Nor has one of which nothing can be read."""
        registry = registry_of(tmp_path, cmdline=b"./simulation\0")
        registry.admit({1: row(), 2: row(tgid=200)})
        registry.update_identities({})

        assert registry.engines() == {}

    def test_engines_are_not_read_when_the_collector_is_disabled(self, tmp_path: Path) -> None:
        processes = process(tmp_path, 100, **{**NO_CULPRIT, "cmdline": b"VLLM::EngineCore\0"})
        registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256, with_engines=False)
        registry.admit({1: row()})

        assert registry.engines() == {}

    def test_hostile_comm_is_made_printable(self, tmp_path: Path) -> None:
        """prctl(PR_SET_NAME) accepts any bytes."""
        processes = process(tmp_path, 100, **NO_CULPRIT)
        registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256)
        registry.admit({1: row(comm=b'a\n"\xff')})
        (series,) = registry.workload_info()[1]

        assert series.labels[1] == 'a\ufffd"\ufffd'


class TestRemoval:
    """The end of a process."""

    def test_removed_process_has_no_identity_any_more(self, tmp_path: Path) -> None:
        """remove() returns it, for the last totals."""
        registry = registry_of(tmp_path, environ=b"RANK=3\0")
        registry.update_identities({})

        assert registry.remove(1) == Identity(node="gpu7", rank="3")
        assert (registry.identities(), registry.workload_info(), len(registry)) == ({}, {}, 0)

    def test_process_that_ends_while_held_back_has_an_identity(self, tmp_path: Path) -> None:
        """Short jobs count too."""
        registry = registry_of(tmp_path, cgroup=CGROUP)

        assert registry.remove(1) == Identity(node="gpu7", container="0123456789ab")

    def test_removing_a_process_twice_is_harmless(self, tmp_path: Path) -> None:
        registry = registry_of(tmp_path)
        registry.remove(1)

        assert registry.remove(1) is None

    def test_running_process_has_not_ended(self, tmp_path: Path) -> None:
        """Same tgid, same start."""
        registry = registry_of(tmp_path)
        registry.queue_liveness_checks()

        assert registry.find_ended() == []

    def test_start_one_tick_apart_has_not_ended(self, tmp_path: Path) -> None:
        """The kernel rounds nanoseconds to ticks differently."""
        registry = registry_of(tmp_path, stat=stat_line(100, start_time_ticks=4_710))
        registry.queue_liveness_checks()

        assert registry.find_ended() == []

    def test_process_without_a_proc_entry_has_ended(self, tmp_path: Path) -> None:
        """Its exit event was lost."""
        registry = registry_of(tmp_path)
        shutil.rmtree(tmp_path / "100")
        registry.queue_liveness_checks()

        assert registry.find_ended() == [1]

    def test_process_whose_tgid_was_reused_has_ended(self, tmp_path: Path) -> None:
        """Another start time."""
        registry = registry_of(tmp_path)
        (tmp_path / "100" / "stat").write_bytes(stat_line(100, start_time_ticks=9_999))
        registry.queue_liveness_checks()

        assert registry.find_ended() == [1]

    def test_sixteen_processes_are_checked_at_a_time(self, tmp_path: Path) -> None:
        """Eighteen without a /proc entry; one that is removed in between is not checked."""
        registry = WorkloadRegistry(Processes(tmp_path), DirectReads(Processes(tmp_path)), "gpu7", 256)
        registry.admit({number: row(tgid=1000 + number) for number in range(1, 19)})
        registry.queue_liveness_checks()
        first = registry.find_ended()
        registry.remove(17)

        assert (first, registry.find_ended(), registry.find_ended()) == (list(range(1, 17)), [18], [])


class TestLimit:
    """At most so many workloads at a time."""

    OTHER = Identity(node="gpu7", rank="other", container="other")

    def registry(self, proc: Path) -> WorkloadRegistry:
        """For two workloads; ranks 0, 1 and 2 are admitted in this order."""
        for rank in range(3):
            process(proc, 100 + rank, environ=b"RANK=%d\0" % rank, cgroup=b"0::/\n")
        registry = WorkloadRegistry(Processes(proc), DirectReads(Processes(proc)), "gpu7", 2)
        for rank in range(3):
            registry.admit({rank: row(tgid=100 + rank)})
            registry.update_identities({})
        return registry

    def test_workload_beyond_the_limit_is_other(self, tmp_path: Path) -> None:
        """The first two keep their identities."""
        names = self.registry(tmp_path).identities()

        assert [names[process] for process in (0, 1, 2)] == [
            Identity(node="gpu7", rank="0"),
            Identity(node="gpu7", rank="1"),
            self.OTHER,
        ]

    def test_ended_workload_makes_room_for_one_that_runs(self, tmp_path: Path) -> None:
        """What it has counted as `other` stays there. The series of the ended one end."""
        registry = self.registry(tmp_path)
        registry.remove(0)
        renames = registry.update_identities({})

        assert renames == [Rename(2, self.OTHER)]
        assert registry.identities()[2] == Identity(node="gpu7", rank="2")
        assert registry.evicted == [Identity(node="gpu7", rank="0")]

    def test_one_that_has_waited_comes_before_a_newer_one(self, tmp_path: Path) -> None:
        registry = self.registry(tmp_path)
        registry.remove(0)
        process(tmp_path, 103, environ=b"RANK=3\0", cgroup=b"0::/\n")
        registry.admit({3: row(tgid=103)})
        registry.update_identities({})

        assert (registry.identities()[2], registry.identities()[3]) == (Identity("gpu7", "2"), self.OTHER)

    def test_waiting_process_that_ends_leaves_the_queue(self, tmp_path: Path) -> None:
        """Its place is given to the next one."""
        registry = self.registry(tmp_path)
        process(tmp_path, 103, environ=b"RANK=3\0", cgroup=b"0::/\n")
        registry.admit({3: row(tgid=103)})
        registry.update_identities({})
        registry.remove(2)
        registry.remove(1)
        registry.update_identities({})

        assert registry.identities() == {0: Identity("gpu7", "0"), 3: Identity("gpu7", "3")}

    def test_overflow_is_logged_and_counted_once_for_each_process(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        registry = self.registry(tmp_path)
        for _ in range(100):
            registry.update_identities({})

        assert registry.refused.sums() == {("workloads", "uid 0"): 1}
        assert [record.message.split(": ")[1] for record in caplog.records] == ["workloads for uid 0"]

    def test_further_processes_of_a_workload_need_no_room(self, tmp_path: Path) -> None:
        """Another process of rank 0."""
        registry = self.registry(tmp_path)
        process(tmp_path, 105, environ=b"RANK=0\0", cgroup=b"0::/\n")
        registry.admit({5: row(tgid=105)})
        registry.update_identities({})

        assert registry.identities()[5] == Identity(node="gpu7", rank="0")

    def test_workloads_beyond_the_limit_have_no_info(self, tmp_path: Path) -> None:
        """There may be thousands, and each would be a series."""
        assert self.registry(tmp_path).workload_info().keys() == {0, 1}


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
        processes = process(proc, 100, **{**NO_CULPRIT, "environ": b"RANK=3\0", "cgroup": IN_POD})
        registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256, pods)
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

    @pytest.mark.parametrize("is_listed", [True, False])
    def test_id_in_an_unusual_place_counts_if_a_pod_has_it(self, tmp_path: Path, *, is_listed: bool) -> None:
        """It has the pod's labels, or none."""
        cgroup = f"0::/my-runtime/{IDENTIFIER}\n".encode()
        processes = process(tmp_path, 100, **{**NO_CULPRIT, "environ": b"RANK=3\0", "cgroup": cgroup})
        pods = PodCache(is_worth_waiting_for=False)
        if is_listed:
            pods.put("job-0", pod("worker"))
        registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256, pods)
        registry.admit({1: row()})
        registry.update_identities({})
        (labels,) = (series.labels for series in registry.workload_info()[1])
        info = dict(zip(catalog.workload.INFO.labels, labels, strict=True))
        expected = ("worker", IDENTIFIER, POD_UID) if is_listed else ("", "", "")

        assert (registry.identities()[1].container, info["container_id"], info["pod_uid"]) == expected

    def test_process_is_not_held_back_while_the_orchestrator_does_not_answer(self, tmp_path: Path) -> None:
        registry = self.registry(tmp_path, PodCache(is_worth_waiting_for=False))
        registry.update_identities({})

        assert registry.identities() == {1: UNNAMED}

    def test_process_in_no_container_is_not_held_back(self, tmp_path: Path) -> None:
        processes = process(tmp_path, 100, **{**NO_CULPRIT, "environ": b"RANK=3\0"})
        registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256, PodCache())
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
