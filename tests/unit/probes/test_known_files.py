"""probes.known_files: a file is the same one, whichever of its identities it is met under."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.config.probes import AttachKind
from exporter.host.leases import Lease
from exporter.kernel.abi import Api
from exporter.kernel.mapped_files import FileStamp, RealFile
from exporter.kernel.probes import Attachment
from exporter.probes.file_prober import Probed
from exporter.probes.file_shares import FileShares
from exporter.probes.known_files import KnownFiles
from tests.support.fake_libbpf import FakeLibbpf, kernel_of

REAL = RealFile(address=0xFFFF8880, inode=26, generation=5, device=7)
KEY = (8, 26, b"/opt/libcudart.so.12")


def probed(number: int = 1) -> Probed:
    attachment = Attachment(Api.RUNTIME, AttachKind.MULTI, ("cudaMalloc",), number, kernel_of(FakeLibbpf()))
    return Probed("/opt/libcudart.so.12", (26, KEY[2]), Api.RUNTIME, attachment, lease=Lease(-1, lambda _: None))


def unguarded() -> Probed:
    """On a network file system."""
    return replace(probed(), lease=None)


@pytest.fixture
def files() -> KnownFiles:
    return KnownFiles(FileShares(100))


class TestIdentities:
    def test_file_is_known_under_each(self, files: KnownFiles) -> None:
        file = probed()
        files.add(file, "job", {REAL})
        files.meet(file, {KEY})

        assert files.get(REAL, Api.RUNTIME) is files.get(KEY, Api.RUNTIME) is file
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
        files.use(file, (26, b"/usr/lib/libcudart.so.12"), 7)
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


class TestChanges:
    """Files that are written to after they were read."""

    STAMP = FileStamp(size_bytes=4096, changed_ns=11)

    def test_leased_file_does_not_change(self, files: KnownFiles) -> None:
        """A chmod or a link to it changes its stamp."""
        file = probed()
        files.add(file, "job", {REAL}, self.STAMP)

        assert not files.forget_changed(file, self.STAMP._replace(changed_ns=12))

    def test_file_without_probes_is_forgotten_when_its_stamp_differs(self, files: KnownFiles) -> None:
        """It was malformed, as half a download is. No calls are missing by that."""
        file = Probed("/opt/x", (27, b"/opt/x"), Api.RUNTIME, None)
        files.add(file, "job", {REAL}, self.STAMP)
        before = files.forget_changed(file, self.STAMP)
        after = files.forget_changed(file, self.STAMP._replace(size_bytes=8192))

        assert (before, after, files.all(), dict(files.changed)) == (False, True, [], {})

    def test_without_stamps_it_is_forgotten_after_eight_walks(self, files: KnownFiles) -> None:
        """Before 6.1."""
        file = Probed("/opt/x", (27, b"/opt/x"), Api.RUNTIME, None)
        files.add(file, "job", {KEY})
        forgotten = []
        for _ in range(8):
            files.walk_number += 1
            forgotten.append(files.forget_changed(file, None))

        assert forgotten == [False] * 7 + [True]

    def test_probed_file_that_has_changed_is_detached_and_counted(self, files: KnownFiles) -> None:
        file = unguarded()
        files.add(file, "job", {REAL}, self.STAMP)

        assert files.forget_changed(file, self.STAMP._replace(changed_ns=12))
        assert (files.probed, files.changed) == ((), {("runtime",): 1})

    def test_file_without_a_lease_needs_a_look_at_each_mapping(self, files: KnownFiles) -> None:
        files.add(unguarded(), "job", {REAL}, self.STAMP)

        assert files.attached == frozenset()

    def test_it_is_detached_when_all_processes_that_mapped_it_have_ended(self, files: KnownFiles) -> None:
        file = unguarded()
        files.add(file, "job", {REAL}, self.STAMP)
        for tgid in (7, 8):
            files.add_user(file, tgid)
        files.detach_unguarded(0.0, lambda tgid: tgid == 8)
        before = len(files.all())
        files.detach_unguarded(0.5, lambda _: False)

        assert (before, files.all()) == (1, [])

    def test_end_of_a_lease_detaches_its_file_alone(self, files: KnownFiles) -> None:
        file, other = probed(1), probed(2)
        files.add(file, "job", {REAL})
        files.add(other, "job", {REAL._replace(inode=27)})
        assert file.lease is not None
        files.end_of(file.lease)

        assert (files.all(), files.changed) == ([other], {("runtime",): 1})


class TestSurplus:
    def test_file_whose_calls_another_one_has_counted_stays(self, files: KnownFiles) -> None:
        """Any program can jump from a copy of a library into the library itself."""
        first, second = probed(1), probed(2)
        files.add(first, "job", {REAL})
        files.add(second, "job", {REAL._replace(inode=27)})
        files.note_surplus(2, 1)

        assert files.all() == [first, second]
        assert files.surplus == {("runtime",): 1}
