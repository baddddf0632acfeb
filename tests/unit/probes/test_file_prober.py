"""probes.file_prober: probes on one file, and the files where that fails. The kernel is a fake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.host.libraries import LibraryKind, OpenedLibrary, inspect_file
from exporter.kernel.abi import Api
from exporter.probes.file_prober import FileProber
from tests.support.fake_libbpf import FakeLibbpf, kernel_of
from tests.unit.host.elf_image import Image, Sym

CUDART = Image([Sym("cudaMalloc"), Sym("cudaFree", 0x401010)]).content()
LAUNCHES_ONLY = Image([Sym("cudaLaunchKernel")]).content()
NOTHING_TO_PROBE = Image([Sym("cudaGetDeviceCount")]).content()

Opened = Callable[[bytes], OpenedLibrary]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Content -> a file with it, opened."""

    def open_it(content: bytes) -> OpenedLibrary:
        path = tmp_path / "libcudart.so.12"
        path.write_bytes(content)
        found = inspect_file(path, LibraryKind.RUNTIME)
        assert isinstance(found, OpenedLibrary)
        return found

    return open_it


def prober(libbpf: FakeLibbpf, *, with_launches: bool = True) -> FileProber:
    return FileProber(kernel_of(libbpf), with_launches=with_launches)


class TestProbe:
    def test_functions_of_a_library_are_attached(self, opened: Opened) -> None:
        """The file is known by its build, its size and its functions."""
        libbpf = FakeLibbpf()
        probed = prober(libbpf).probe(opened(CUDART))

        assert probed.attachment is not None
        assert probed.api is Api.RUNTIME
        assert probed.likeness is not None
        assert {name for name, _ in probed.likeness.offsets} == {"cudaMalloc", "cudaFree"}
        assert probed.likeness.size_bytes == len(CUDART)
        assert libbpf.uprobes

    def test_library_without_wanted_functions_is_left_alone(self, opened: Opened) -> None:
        """And counted."""
        libbpf = FakeLibbpf()
        files = prober(libbpf)
        probed = files.probe(opened(NOTHING_TO_PROBE))

        assert (probed.attachment, probed.likeness, libbpf.uprobes) == (None, None, {})
        assert files.failures == {("runtime", "no_symbols"): 1}

    def test_refusal_of_the_kernel_is_counted(self, opened: Opened) -> None:
        libbpf = FakeLibbpf()
        libbpf.refused_after = 0
        files = prober(libbpf)

        assert files.probe(opened(CUDART)).attachment is None
        assert files.failures == {("runtime", "refused"): 1}


class TestSymbols:
    """Whether there is anything to probe, without an attempt."""

    @pytest.mark.parametrize(
        ("content", "with_launches", "has_symbols"),
        [
            (CUDART, True, True),
            (NOTHING_TO_PROBE, True, False),
            (LAUNCHES_ONLY, True, True),
            (LAUNCHES_ONLY, False, False),
        ],
    )
    def test_wanted_functions_count(
        self, content: bytes, opened: Opened, *, with_launches: bool, has_symbols: bool
    ) -> None:
        """Launches only where they are probed."""
        assert prober(FakeLibbpf(), with_launches=with_launches).has_symbols(opened(content)) is has_symbols


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
