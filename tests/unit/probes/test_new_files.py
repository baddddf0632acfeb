"""probes.new_files: what is probed is what the file holds, and it is guarded. Files and leases are real, the kernel is a fake."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.host.leases import Lease, NoLease
from exporter.host.libraries import LibraryKind
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel.abi import Api
from exporter.kernel.operations import wanted_symbols
from exporter.probes.file_prober import FileProber, Probed
from exporter.probes.file_shares import FileShares
from exporter.probes.known_files import KnownFiles
from exporter.probes.new_files import NewFile, NewFiles
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.patience import PATIENCE_SECONDS
from tests.unit.host.elf_image import Image, Sym

ONE = Image([Sym("cudaMalloc")]).content()
TWO = Image([Sym("cudaMalloc"), Sym("cudaFree", 0x401010)]).content()
NFS = 0x6969


class Bench:
    """One library, which is examined and then probed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_bytes(ONE)
        self.reader = TenantReader(Processes(), patience_seconds=PATIENCE_SECONDS)
        self.files = KnownFiles(FileShares(100))
        self.prober = FileProber(kernel_of(FakeLibbpf(), AttachKind.MULTI), with_launches=True)
        self.now = 0.0
        self.new_files = NewFiles(self.files, self.prober, threading.RLock(), lambda: True, lambda: self.now)

    def examined(self) -> ExaminedLibrary:
        found = self.reader.inspect_file(self.path, LibraryKind.RUNTIME, wanted_symbols(Api.RUNTIME))
        assert isinstance(found, ExaminedLibrary)
        return found

    def probe(self, found: ExaminedLibrary, lease: Lease | NoLease, tgid: int = 7) -> Probed | None:
        with found:
            return self.new_files.probe(NewFile(tgid, found, "job", {found.file_id}, None), lease, self.reader)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "libcudart.so.12")
    yield bench
    bench.new_files.close()
    bench.reader.close()


class TestProbe:
    def test_file_that_is_written_to_before_its_lease_is_read_again(self, bench: Bench) -> None:
        """Two functions, of which the first look saw one."""
        found = bench.examined()
        bench.path.write_bytes(TWO)
        file = bench.probe(found, bench.new_files.lease_of(found, None))

        assert file is not None
        assert file.attachment is not None
        assert set(file.attachment.functions) == {"cudaMalloc", "cudaFree"}

    def test_file_that_is_written_to_before_it_is_probed_is_not(self, bench: Bench) -> None:
        """A later look finds it; it is counted."""
        found = bench.examined()
        lease = bench.new_files.lease_of(found, None)
        bench.path.write_bytes(TWO)

        assert bench.probe(found, lease) is None
        assert (bench.files.all(), bench.prober.failures) == ([], {("runtime", "written"): 1})

    def test_writer_of_a_probed_file_waits_until_it_is_detached(self, bench: Bench) -> None:
        found = bench.examined()
        file = bench.probe(found, bench.new_files.lease_of(found, None))
        bench.path.write_bytes(TWO)

        assert file is not None
        assert (bench.files.all(), bench.files.changed) == ([], {("runtime",): 1})

    def test_file_that_is_known_by_now_is_not_probed_twice(self, bench: Bench) -> None:
        """And its lease is given back."""
        first, second = bench.examined(), bench.examined()
        bench.probe(first, bench.new_files.lease_of(first, None))
        lease = bench.new_files.lease_of(second, None)

        assert bench.probe(second, lease) is None
        assert isinstance(lease, Lease)
        assert (len(bench.files.all()), lease.is_current) == (1, False)


class TestUnguarded:
    """Files that cannot be leased."""

    def test_file_of_a_network_file_system_is_probed_without_a_lease(self, bench: Bench) -> None:
        found = replace(bench.examined(), file_system=NFS)
        lease = bench.new_files.lease_of(found, None)
        file = bench.probe(found, lease)

        assert lease is NoLease.IMPOSSIBLE
        assert file is not None
        assert (file.lease, file.users) == (None, {7})

    def test_file_of_a_program_that_starts_soon_stays_for_three_minutes(self, bench: Bench) -> None:
        file = bench.probe(replace(bench.examined(), file_system=NFS), NoLease.IMPOSSIBLE, tgid=0)

        assert file is not None
        assert file.expected_until == 180.0
