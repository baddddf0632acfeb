"""pipeline.node_context: what a node has, from folders that play its file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.chains.remedies.context import UNKNOWN_NODE
from exporter.pipeline.node_context import node_context, node_root


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder / name


class TestPrograms:
    def test_those_in_the_folders_are_found(self, tmp_path: Path) -> None:
        """If they can be executed, and a remedy uses them."""
        for name in ("taskset", "renice", "bash"):
            program(tmp_path / "bin", name)
        (tmp_path / "bin" / "renice").chmod(0o644)
        node = node_context(tmp_path, tmp_path, folders=(str(tmp_path / "bin"),))

        assert node.commands == {"taskset"}

    def test_those_of_the_node_count_in_a_container(self, tmp_path: Path) -> None:
        """Where its first process has another root; an absolute link leads elsewhere there."""
        root = tmp_path / "1" / "root"
        program(root / "usr/bin", "taskset")
        (root / "usr/bin/docker").symlink_to("/opt/docker")
        node = node_context(tmp_path, tmp_path, folders=("/usr/bin",))

        assert node.commands == {"taskset", "docker"}
        assert node_root(tmp_path) == str(root)

    def test_own_program_is_called_by_its_path_where_the_shell_does_not_find_it(self, tmp_path: Path) -> None:
        own = program(tmp_path / "venv", "gpu-stall-exporter")
        node = node_context(tmp_path, tmp_path, folders=(), own_program=own)

        assert node.exporter == str(own)

    def test_own_program_is_called_by_its_name_where_the_shell_finds_it(self, tmp_path: Path) -> None:
        own = program(tmp_path / "venv", "gpu-stall-exporter")
        node = node_context(tmp_path, tmp_path, folders=(str(own.parent),), own_program=own)

        assert node.exporter == "gpu-stall-exporter"

    def test_program_of_a_container_is_not_one_of_the_node(self, tmp_path: Path) -> None:
        (tmp_path / "1" / "root").mkdir(parents=True)
        own = program(tmp_path / "venv", "gpu-stall-exporter")

        assert node_context(tmp_path, tmp_path, folders=("/usr/bin",), own_program=own).exporter == ""


class TestKernelAndSystemd:
    def test_systemd_has_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "1/root/run/systemd/system").mkdir(parents=True)

        assert node_context(tmp_path, tmp_path).has_systemd

    @pytest.mark.parametrize(
        ("scheduler", "has_classes"),
        [("none [bfq]", True), ("[mq-deadline] none", True), ("[none] mq-deadline bfq", False)],
    )
    def test_scheduler_of_a_disk_honours_classes(self, tmp_path: Path, scheduler: str, has_classes: bool) -> None:
        """The one in brackets is in use."""
        (tmp_path / "block/sda/queue").mkdir(parents=True)
        (tmp_path / "block/sda/queue/scheduler").write_text(scheduler)

        assert node_context(tmp_path, tmp_path).has_io_classes == has_classes

    def test_autogroups_and_pressure_are_the_kernels(self, tmp_path: Path) -> None:
        (tmp_path / "sys/kernel").mkdir(parents=True)
        (tmp_path / "sys/kernel/sched_autogroup_enabled").write_text("1\n")
        (tmp_path / "pressure").mkdir()
        (tmp_path / "pressure/io").write_text("some avg10=0.00\n")
        node = node_context(tmp_path, tmp_path)

        assert (node.has_autogroups, node.has_pressure) == (True, True)

    @pytest.mark.parametrize("is_of_machine", [True, False])
    def test_ids_are_those_of_the_machine_in_its_namespace(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_of_machine: bool
    ) -> None:
        """It has an inode of its own; a file here has another one."""
        (tmp_path / "self/ns").mkdir(parents=True)
        pid = tmp_path / "self/ns/pid"
        pid.touch()
        if is_of_machine:
            monkeypatch.setattr("exporter.pipeline.node_context.PID_NAMESPACE_OF_MACHINE", pid.stat().st_ino)

        assert node_context(tmp_path, tmp_path).has_machine_ids == is_of_machine

    def test_empty_machine_has_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "1/root").mkdir(parents=True)

        assert node_context(tmp_path, tmp_path, own_program=tmp_path / "none") == UNKNOWN_NODE
