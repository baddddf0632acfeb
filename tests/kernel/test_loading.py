"""Loading of single objects, and the exporter's pid namespace."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.kernel import loader
from exporter.kernel.tables import Tables
from tests.support.traced import Tracer, eventually, tracer


class TestSubjects:
    """Each collector can be switched off."""

    @pytest.mark.parametrize("subject", ["cuda", "nccl"])
    def test_one_collector_alone_can_be_read(self, subject: str) -> None:
        """The maps of the other are missing; reading, drops and capacities work without them."""
        kernel = loader.load(subjects=("process", subject))
        try:
            tables = Tables(kernel.maps)
            reading = tables.read()

            assert (reading.operations, reading.communicators) == ({}, {})
            assert set(tables.drops().values()) == {0}
            assert "operations" in tables.capacities()
        finally:
            kernel.close()

    def test_every_object_loads_here(self) -> None:
        """Also those loaded on request. Some have events that are missing on some architectures."""
        kernel = loader.load(subjects=(*loader.SUBJECTS, *loader.ON_REQUEST))
        try:
            assert {loader.subject_of(name) for name in kernel.failures} <= loader.OPTIONAL.keys()
        finally:
            kernel.close()

    def test_object_that_does_not_load_affects_no_other(self, tmp_path: Path) -> None:
        """The NCCL object is cut short: it is in the failures, and CUDA is loaded."""
        for built in loader.OBJECTS_DIR.glob("*.bpf.o"):
            (tmp_path / built.name).write_bytes(built.read_bytes())
        (tmp_path / "nccl.bpf.o").write_bytes(b"\x7fELF")

        kernel = loader.load(objects_dir=tmp_path)
        try:
            assert set(kernel.failures) == {"nccl"}
            assert any(name.startswith("cuda_") for name in kernel.programs)
        finally:
            kernel.close()


class TestPidNamespace:
    """The tgid of a row is that of the exporter's own /proc."""

    def test_process_of_a_nested_namespace_has_the_outer_tgid(self, best_traced: Tracer) -> None:
        """In its own namespace it is 1."""
        orders = ("cudaEventRecord:1", "sleep:1:60s")
        child = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", standin.build_dir() / "calls", *orders],
            env=standin.environment(),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            (row,) = eventually(best_traced.tables.read_processes, "the call is tracked").values()
            status = Path(f"/proc/{row.tgid}/status").read_text(encoding="ascii")
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

        assert "Name:\tcalls\n" in status
        assert f"NSpid:\t{row.tgid}\t1\n" in status


class TestLent:
    """Programs that tests share."""

    def test_shared_programs_keep_nothing_of_the_last_test(self) -> None:
        """The same programs count 23 calls of process number 1, both times."""
        seen = []
        for _ in range(2):
            with tracer() as found:
                found.attach_standin({"cudaEventRecord", "ncclAllReduce"})
                run = found.run("cudaEventRecord:23", "ncclAllReduce:3:4096")
                seen.append((id(found.kernel), run.counts(), list(run.reading.processes), run.drops))

        assert seen[0] == seen[1]
        assert seen[0][1:] == ({"cudaEventRecord": 23, "ncclAllReduce": 3}, [1], {})
