"""probes.file_prober: probes on one file, and the files where that fails. The kernel is a fake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.host.libraries import LibraryKind
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel.abi import Api
from exporter.kernel.operations import wanted_symbols
from exporter.probes.file_prober import FileProber
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.support.patience import PATIENCE_SECONDS
from tests.unit.host.elf_image import Image, Sym

CUDART = Image([Sym("cudaMalloc"), Sym("cudaFree", 0x401010)]).content()
NOTHING_TO_PROBE = Image([Sym("cudaGetDeviceCount")]).content()

Opened = Callable[[bytes], ExaminedLibrary]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Content -> a file with it, as the reader has examined it."""
    reader = TenantReader(Processes(), patience_seconds=PATIENCE_SECONDS)
    examined = []

    def open_it(content: bytes) -> ExaminedLibrary:
        path = tmp_path / "libcudart.so.12"
        path.write_bytes(content)
        found = reader.inspect_file(path, LibraryKind.RUNTIME, wanted_symbols(Api.RUNTIME))
        assert isinstance(found, ExaminedLibrary)
        examined.append(found)
        return found

    yield open_it
    for one in examined:
        one.close()
    reader.close()


def prober(libbpf: FakeLibbpf, *, with_launches: bool = True) -> FileProber:
    return FileProber(kernel_of(libbpf), with_launches=with_launches)


class TestProbe:
    def test_functions_of_a_library_are_attached(self, opened: Opened) -> None:
        libbpf = FakeLibbpf()
        probed = prober(libbpf).probe(opened(CUDART), None)

        assert probed.attachment is not None
        assert probed.api is Api.RUNTIME
        assert set(probed.attachment.functions) == {"cudaMalloc", "cudaFree"}
        assert libbpf.uprobes

    def test_library_without_wanted_functions_is_left_alone(self, opened: Opened) -> None:
        """And counted."""
        libbpf = FakeLibbpf()
        files = prober(libbpf)
        probed = files.probe(opened(NOTHING_TO_PROBE), None)

        assert (probed.attachment, libbpf.uprobes) == (None, [])
        assert files.failures == {("runtime", "no_symbols"): 1}

    def test_refusal_of_the_kernel_is_counted(self, opened: Opened) -> None:
        libbpf = FakeLibbpf()
        libbpf.refused_after = 0
        files = prober(libbpf)

        assert files.probe(opened(CUDART), None).attachment is None
        assert files.failures == {("runtime", "refused"): 1}


class TestSymbols:
    def test_launches_are_wanted_only_where_they_are_probed(self) -> None:
        names = [
            "cudaLaunchKernel" in prober(FakeLibbpf(), with_launches=one).symbols_of(LibraryKind.RUNTIME)
            for one in (True, False)
        ]

        assert names == [True, False]


class TestFailures:
    def test_first_of_a_kind_is_logged(self, opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
        """Each is counted."""
        files = prober(FakeLibbpf())
        for _ in range(3):
            files.count_failure("nccl", "malformed", "/lib/libnccl.so.2: no section")
        files.count_failure("nccl", "refused", "/lib/libnccl.so.2: not permitted")

        assert files.failures == {("nccl", "malformed"): 3, ("nccl", "refused"): 1}
        assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
            "cannot probe a nccl library (malformed): /lib/libnccl.so.2: no section",
            "cannot probe a nccl library (refused): /lib/libnccl.so.2: not permitted",
        ]
