"""host.leases: a writer waits until the lease of a file is given back. The files and the leases are real."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.host.leases import Lease, Leases, NoLease
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "libcudart.so.12"
    path.write_bytes(b"one")
    return path


class Taken:
    """Leases, and what is seen in the file whenever one of them breaks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seen: list[bytes] = []
        self.leases = Leases(self._on_break)

    def take(self) -> Lease | NoLease:
        fd = os.open(self._path, os.O_PATH)
        try:
            return self.leases.take(fd)
        finally:
            os.close(fd)

    def _on_break(self, _: Lease) -> None:
        self.seen.append(self._path.read_bytes())


@pytest.fixture
def taken(path: Path) -> Iterator[Taken]:
    taken = Taken(path)
    yield taken
    taken.leases.close()


class TestLease:
    def test_writer_waits_for_the_call(self, taken: Taken, path: Path) -> None:
        """At the call the file is as it was; then it is written."""
        lease = taken.take()
        path.write_bytes(b"two")

        assert isinstance(lease, Lease)
        assert (taken.seen, path.read_bytes(), lease.is_current) == ([b"one"], b"two", False)

    def test_each_way_of_writing_breaks_it(self, taken: Taken, path: Path) -> None:
        """By its path, by another name, and by a descriptor."""
        link = path.with_name("link")
        link.hardlink_to(path)
        taken.take()
        os.truncate(path, 1)
        taken.take()
        link.write_bytes(b"two")
        taken.take()
        os.close(os.open(path, os.O_RDWR))

        assert taken.seen == [b"one", b"o", b"two"]

    def test_what_does_not_change_the_content_does_not_break_it(self, taken: Taken, path: Path) -> None:
        lease = taken.take()
        path.read_bytes()
        path.chmod(0o700)
        path.rename(path.with_name("other"))
        path.with_name("other").unlink()

        assert isinstance(lease, Lease)
        assert (taken.seen, lease.is_current) == ([], True)

    def test_lease_that_was_given_back_is_not_broken(self, taken: Taken, path: Path) -> None:
        lease = taken.take()
        assert isinstance(lease, Lease)
        lease.give_back()
        lease.give_back()
        path.write_bytes(b"two")

        assert (taken.seen, lease.is_current) == ([], False)

    def test_it_is_broken_as_before_in_another_thread(self, taken: Taken, path: Path) -> None:
        taken.take()
        taken.leases.change_thread()
        path.write_bytes(b"two")

        assert taken.seen == [b"one"]

    def test_close_gives_all_back(self, taken: Taken, path: Path) -> None:
        taken.take()
        taken.leases.close()
        path.write_bytes(b"two")

        assert taken.seen == []


class TestNoLease:
    def test_file_that_is_open_for_writing(self, taken: Taken, path: Path) -> None:
        with path.open("ab"):
            during = taken.take()

        assert (during, isinstance(taken.take(), Lease)) == (NoLease.WRITTEN, True)

    def test_pipe(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        taken = Taken(pipe)

        assert taken.take() is NoLease.IMPOSSIBLE
        taken.leases.close()


class TestDefect:
    def test_writer_does_not_wait_for_a_call_that_fails(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        def fail(_: Lease) -> None:
            raise ZeroDivisionError

        leases = Leases(fail)
        fd = os.open(path, os.O_PATH)
        leases.take(fd)
        os.close(fd)
        writer = threading.Thread(target=path.write_bytes, args=(b"two",))
        writer.start()
        writer.join(PATIENCE_SECONDS)

        assert path.read_bytes() == b"two"
        assert "internal error (bug)" in caplog.text
        leases.close()
