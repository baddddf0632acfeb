"""support_bundle.machine: reads of this machine, bounded in size and time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter import catalog
from exporter.output.web.pages import Pages
from exporter.own_metrics.store import OwnMetrics
from exporter.support_bundle.machine import FILE_BYTES_MAX, Machine
from tests.support.receiver import refused
from tests.support.records import point, snapshot_of
from tests.support.web_server import serving


class TestFiles:
    def test_last_newline_is_dropped(self, tmp_path: Path) -> None:
        (tmp_path / "version").write_text("Linux 6.18\n")

        assert Machine(tmp_path, {}).read("/version") == "Linux 6.18"

    def test_beginning_of_a_large_file_is_read(self, tmp_path: Path) -> None:
        """1 MiB."""
        (tmp_path / "large").write_bytes(b"x" * (FILE_BYTES_MAX + 1))

        assert len(Machine(tmp_path, {}).read_bytes("/large")) == 1 << 20

    def test_error_is_a_reason(self, tmp_path: Path) -> None:
        assert Machine(tmp_path, {}).read_or_error("/none") == "cannot be read: No such file or directory"


class TestKernelLog:
    def test_records_are_lines(self, tmp_path: Path) -> None:
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/kmsg").write_text("6,1,2,-;one\n6,2,3,-;two\n")

        assert Machine(tmp_path, {}).kernel_log() == ["6,1,2,-;one", "6,2,3,-;two"]


class TestPrograms:
    def test_standard_output_is_returned(self) -> None:
        assert Machine().output_of(["echo", "word"]) == "word\n"

    def test_failing_program_raises(self) -> None:
        with pytest.raises(subprocess.CalledProcessError):
            Machine().output_of(["false"])

    def test_end_of_a_long_output_is_kept(self) -> None:
        """The last 1 MiB, of which the first letter is in a word."""
        found = Machine().output_of(["python3", "-c", f"print('first' + 'x' * {FILE_BYTES_MAX - 5} + 'last', end='')"])

        assert (len(found), found[-4:], found[:1]) == (FILE_BYTES_MAX, "last", "t")


class TestGet:
    def test_page_of_a_local_server(self) -> None:
        snapshot = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
        pages = Pages(lambda: snapshot, OwnMetrics(), lambda: True, with_exporter_metrics=False)
        with serving(pages) as (host, port):
            assert Machine().get(host, port, "/healthz", is_tls=False) == (200, "ok\n")

    def test_refused_connection_is_an_os_error(self) -> None:
        with refused() as url, pytest.raises(OSError, match="connection refused"):
            Machine().get("127.0.0.1", int(url.rpartition(":")[2]), "/", is_tls=False)
