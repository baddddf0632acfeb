"""Loading of single objects, and the exporter's pid namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import gpustall_standin as standin
from exporter.kernel import loader
from exporter.kernel.tables import Tables
from tests.support import newer_compiler
from tests.support.requirements import ROOT, need_command
from tests.support.traced import Tracer, eventually, tracer

# Loads everything with the capabilities that `run` keeps, and prints what did not load.
WITH_FEW_CAPABILITIES = """
from exporter.host import privileges
from exporter.kernel import loader
privileges.drop()
kernel = loader.load(subjects=(*loader.SUBJECTS, *loader.ON_REQUEST))
print(*kernel.failures)
"""
HASH_KINDS = {1, 9}
"""BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH."""
PER_CPU_KINDS = {5, 6, 10}
"""BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_LRU_PERCPU_HASH."""
NO_PREALLOC = 1
HASH_HEAD_BYTES = 48  # struct htab_elem


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

    def test_every_object_loads_with_the_capabilities_of_the_exporter(self) -> None:
        """Without CAP_SYS_ADMIN the types of modules cannot be searched for what this kernel lacks."""
        done = subprocess.run(
            [sys.executable, "-c", WITH_FEW_CAPABILITIES], cwd=ROOT, capture_output=True, text=True, check=True
        )

        assert {loader.subject_of(name) for name in done.stdout.split()} <= loader.OPTIONAL.keys()

    @pytest.mark.acceptance  # the compiler is large, and make test does not install it
    def test_objects_of_a_newer_compiler_load_as_well(self, tmp_path: Path) -> None:
        """The verifier may follow more branches of what another compiler makes."""
        need_command(newer_compiler.COMPILER, newer_compiler.COMPILER)
        folder = Path(os.environ.get(newer_compiler.FOLDER, tmp_path))
        if folder == tmp_path:
            newer_compiler.build(folder)
        kernel = loader.load(objects_dir=folder, subjects=(*loader.SUBJECTS, *loader.ON_REQUEST))
        try:
            assert {loader.subject_of(name) for name in kernel.failures} <= loader.OPTIONAL.keys()
        finally:
            kernel.close()

    def test_object_that_does_not_load_affects_no_other(self, tmp_path: Path) -> None:
        """The NCCL object is cut short: it is in the failures, and CUDA is loaded."""
        for built in loader.OBJECTS_DIR.glob("*.bpf.o"):
            (tmp_path / built.name).write_bytes(built.read_bytes())
        for name in ("nccl.bpf.o", "nccl_session.bpf.o"):
            (tmp_path / name).write_bytes(b"\x7fELF")

        kernel = loader.load(objects_dir=tmp_path)
        try:
            assert set(kernel.failures) == {"nccl"}
            assert any(name.startswith("cuda_") for name in kernel.programs)
        finally:
            kernel.close()


class TestPossibleCpus:
    """A machine may have 128 possible CPUs and two: the kernel keeps values for all of them."""

    def test_memory_of_a_possible_cpu_is_bounded(self) -> None:
        """12 KiB, so that 128 cost 1.5 MiB: maps with a value per CPU, `cpu_runs`, and spare entries of hash maps.

        Source of the spare ones: prealloc_init() of the kernel's kernel/bpf/hashtab.c.
        """
        kernel = loader.load()
        try:
            shapes = {name: MapShape.of(one.fd) for name, one in kernel.maps.items()}
        finally:
            kernel.close()
        per_cpu = {name: shape for name, shape in shapes.items() if shape.kind in PER_CPU_KINDS}
        preallocated = [
            shape for shape in shapes.values() if shape.kind in HASH_KINDS and not shape.flags & NO_PREALLOC
        ]
        size_bytes = (
            sum(shape.value_bytes * shape.entries for shape in per_cpu.values())
            + shapes["cpu_runs"].value_bytes
            + sum(shape.key_bytes + shape.value_bytes + HASH_HEAD_BYTES for shape in preallocated)
        )

        assert {shape.entries for shape in per_cpu.values()} == {1}
        assert size_bytes <= 12 << 10

    def test_as_many_as_a_kernel_can_have(self) -> None:
        """8,192 on x86-64; all of their rows can be read."""
        kernel = loader.load(capacities={"cpu_runs": 8192})
        try:
            assert sum(1 for _ in kernel.maps["cpu_runs"].items()) == 8192
        finally:
            kernel.close()


class MapShape(NamedTuple):
    """What /proc says of a map. kind: of enum bpf_map_type."""

    kind: int
    key_bytes: int
    value_bytes: int
    entries: int
    flags: int

    @classmethod
    def of(cls, fd: int) -> MapShape:
        """That of a descriptor of this process."""
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        names = ("map_type", "key_size", "value_size", "max_entries", "map_flags")
        return cls(*(int(fields[name].strip(), 0) for name in names))


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
