"""probes.known_files: a file is the same one, whichever of its identities it is met under."""

from __future__ import annotations

import pytest

from exporter.config.probes import AttachKind
from exporter.kernel.abi import Api
from exporter.kernel.mapped_files import RealFile
from exporter.kernel.probes import Attachment
from exporter.probes.file_prober import Probed
from exporter.probes.file_shares import FileShares
from exporter.probes.known_files import KnownFiles
from tests.support.fake_libbpf import FakeLibbpf, kernel_of

REAL = RealFile(address=0xFFFF8880, inode=26, generation=5, device=7)
KEY = (8, 26, b"/opt/libcudart.so.12")


def probed(number: int = 1) -> Probed:
    attachment = Attachment(Api.RUNTIME, AttachKind.MULTI, ("cudaMalloc",), number, kernel_of(FakeLibbpf()))
    return Probed("/opt/libcudart.so.12", (26, KEY[2]), Api.RUNTIME, attachment)


@pytest.fixture
def files() -> KnownFiles:
    return KnownFiles(FileShares(100))


class TestIdentities:
    def test_file_is_known_under_each(self, files: KnownFiles) -> None:
        file = probed()
        files.add(file, "job", {REAL})
        files.meet(file, {KEY})

        assert files.get(REAL) is files.get(KEY) is file
        assert files.all() == [file]

    def test_attached_files_are_known_as_the_kernel_names_them(self, files: KnownFiles) -> None:
        """Those without probes are not: they may be other files by now."""
        files.add(probed(), "job", {REAL, KEY})
        files.add(Probed("/opt/x", (27, b"/opt/x"), Api.RUNTIME, None), "job", {REAL._replace(inode=27)})

        assert files.attached == {(7, 26, 5)}
        assert len(files.probed) == 1


class TestUse:
    def test_file_that_is_not_met_in_two_walks_is_detached(self, files: KnownFiles) -> None:
        files.add(probed(), "job", {REAL})
        kept = []
        for _ in range(2):
            files.walk_number += 1
            files.detach_unused(now=0.0)
            kept.append(len(files.all()))

        assert kept == [1, 0]
        assert files.shares.taken("job") == 0

    def test_file_that_was_just_mapped_is_in_use(self, files: KnownFiles) -> None:
        files.add(probed(), "job", {REAL})
        files.walk_number += 2
        files.note_use({(26, KEY[2])})
        files.detach_unused(now=0.0)

        assert len(files.all()) == 1

    def test_file_is_in_use_by_each_of_its_names(self, files: KnownFiles) -> None:
        """A hard link, in another container."""
        file = probed()
        files.add(file, "job", {REAL})
        files.use(file, (26, b"/usr/lib/libcudart.so.12"))
        files.walk_number += 2
        files.note_use({(26, b"/usr/lib/libcudart.so.12")})
        files.detach_unused(now=0.0)

        assert files.all() == [file]

    def test_file_stays_while_processes_of_its_owner_are_not_read(self, files: KnownFiles) -> None:
        files.add(probed(), "job", {REAL})
        files.walk_number += 2
        files.detach_unused(now=0.0, kept={"job"})

        assert len(files.all()) == 1

    def test_expected_file_stays_until_its_time(self, files: KnownFiles) -> None:
        file = probed()
        file.expected_until = 10.0
        files.add(file, "job", {REAL})
        files.walk_number += 2
        files.detach_unused(now=9.0)
        before = len(files.all())
        files.detach_unused(now=10.0)

        assert (before, len(files.all())) == (1, 0)


class TestSurplus:
    def test_surplus_gives_back_its_place(self, files: KnownFiles) -> None:
        """Both are one file; its identities lead to the one that stays."""
        first, second = probed(1), probed(2)
        files.add(first, "job", {REAL})
        files.add(second, "job", {KEY})
        files.resolve_surplus(2, 1)

        assert files.get(KEY) is first
        assert files.shares.taken("job") == 1
        assert files.surplus == {("runtime",): 1}
