"""remedies.commands: what managers of containers, batch jobs and units are called for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.causes import Cause
from exporter.chains.remedies import remedy_of
from exporter.chains.remedies.context import ManagedBy
from exporter.model import Identity
from tests.support.chains import a_chain
from tests.unit.chains.remedies.contexts import CONTAINER, IN_UNIT, JOB, NODE, TRAINER, groups

UNIT = "systemctl show backup.service -p CPUQuotaPerSecUSec,CPUWeight,AllowedCPUs,MemoryMax"


class TestLimits:
    @pytest.mark.parametrize(
        ("managed_by", "command"),
        [
            (ManagedBy(slurm_job="17"), "scontrol show job 17"),
            (ManagedBy(CONTAINER, "podman"), f"podman inspect {CONTAINER}"),
            (IN_UNIT, UNIT),
        ],
    )
    def test_manager_of_the_job_shows_them(self, managed_by: ManagedBy, command: str) -> None:
        context = TRAINER._replace(job=replace(JOB, managed_by=managed_by))

        assert remedy_of(a_chain(cause=Cause.CPU_QUOTA), context).commands[-1] == command

    def test_pod_is_named_with_its_namespace(self) -> None:
        identity = Identity("n", namespace="ml", pod="train-0")

        assert remedy_of(a_chain(cause=Cause.CPU_QUOTA), TRAINER, identity).commands[-1] == (
            "kubectl -n ml describe pod train-0"
        )

    def test_systemd_is_not_called_where_it_is_not_the_first_process(self) -> None:
        context = TRAINER._replace(node=replace(NODE, has_systemd=False), job=replace(JOB, managed_by=IN_UNIT))

        assert not [one for one in remedy_of(a_chain(cause=Cause.CPU_QUOTA), context).commands if "systemctl" in one]

    def test_files_of_version_1_are_below_the_mount_of_their_controller(self) -> None:
        context = TRAINER._replace(job=replace(JOB, groups=groups("/a", 1)))

        assert remedy_of(a_chain(cause=Cause.MEMORY_RECLAIM), context).commands[0] == (
            "cat /sys/fs/cgroup/memory/a/memory.limit_in_bytes /sys/fs/cgroup/memory/a/memory.usage_in_bytes"
        )

    def test_root_group_has_no_limits(self) -> None:
        context = TRAINER._replace(job=replace(JOB, groups=groups("")))

        assert remedy_of(a_chain(cause=Cause.CPU_QUOTA), context).commands == ()


class TestLogs:
    """The process has crashed."""

    @pytest.mark.parametrize(
        ("identity", "command"),
        [
            (Identity("n", container="job_17"), "scontrol show job 17"),
            (Identity("n", container="train.service"), "journalctl --no-pager -n 50 -u train.service"),
            (
                Identity("n", namespace="ml", pod="train-0"),
                "kubectl -n ml logs train-0 --all-containers --tail=50 --previous"
                " || kubectl -n ml logs train-0 --all-containers --tail=50",
            ),
        ],
    )
    def test_identity_says_where_they_are(self, identity: Identity, command: str) -> None:
        assert remedy_of(a_chain(cause=Cause.CRASH), TRAINER._replace(job=None), identity).commands[-1] == command


class TestPySpy:
    def test_is_used_where_it_is_installed(self) -> None:
        assert remedy_of(a_chain(cause=Cause.LOCK), TRAINER).commands[0] == "py-spy dump --pid 4027"

    def test_is_described_where_it_is_not(self) -> None:
        node = replace(NODE, commands=NODE.commands - {"py-spy"})
        remedy = remedy_of(a_chain(cause=Cause.LOCK), TRAINER._replace(node=node))

        assert remedy.what.endswith(
            "py-spy, which is not installed here, would show the job's developers the lines of Python (`pip install py-spy`)."
        )
        assert not [one for one in remedy.commands if "py-spy" in one]


class TestOwnProgram:
    def test_path_is_named_where_the_shell_does_not_find_it(self) -> None:
        """As in a virtual environment: sudo has a PATH of its own."""
        node = replace(NODE, exporter="/opt/venv/bin/gpu-stall-exporter")
        remedy = remedy_of(a_chain(cause=Cause.CHANGED), TRAINER._replace(node=node))

        assert remedy.commands == ("/opt/venv/bin/gpu-stall-exporter explain --since 10m",)
