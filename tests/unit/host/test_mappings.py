"""mappings: files that a process runs code from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import Processes

from .process_tree import process

MAPS = rb"""55729b870000-55729b872000 r--p 00000000 fe:00 247026                     /usr/bin/cat
55729b872000-55729b877000 r-xp 00002000 fe:00 247026                     /usr/bin/cat
5572cdb01000-5572cdb22000 rw-p 00000000 00:00 0                          [heap]
7f5e89c94000-7f5e89cb6000 rwxp 00000000 00:00 0 
7f5e89d3f000-7f5e89e95000 r-xp 00026000 103:00002 326269                 /opt/my libs/libcudart.so.12 (deleted)
7f5e89f0c000-7f5e89f0e000 r-xs 00000000 00:01 2050                       /memfd:jit code (deleted)
7f5e89f10000-7f5e89f11000 r-xp 00000000 00:2b 9                          /tmp/a\012b.so
7f5e89f12000-7f5e89f13000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""  # noqa: W291 - the kernel ends the line of an anonymous mapping with a space


class TestMappings:
    """Lines of /proc/TGID/maps."""

    def test_executable_files_are_kept_with_every_form_of_path(self, tmp_path: Path) -> None:
        """Plain, with spaces and deleted, a memfd, and a newline in the name."""
        found = list(parse_executable_mappings(process(tmp_path, 7, maps=MAPS).maps(7)))

        assert found == [
            Mapping(0x55729B872000, 0x55729B877000, b"/usr/bin/cat", os.makedev(0xFE, 0), 247026, False, 0x2000),
            Mapping(
                0x7F5E89D3F000,
                0x7F5E89E95000,
                b"/opt/my libs/libcudart.so.12",
                os.makedev(0x103, 2),
                326269,
                True,
                0x26000,
            ),
            Mapping(0x7F5E89F0C000, 0x7F5E89F0E000, b"/memfd:jit code", os.makedev(0, 1), 2050, True),
            Mapping(0x7F5E89F10000, 0x7F5E89F11000, b"/tmp/a\nb.so", os.makedev(0, 0x2B), 9, False),
        ]

    def test_line_cut_at_the_limit_is_skipped(self) -> None:
        """Half a path would be the path of another file."""
        assert list(parse_executable_mappings(b"1000-2000 r-xp 00000000 fe:00 26 /lib/libcudart.so.1")) == []

    def test_shown_path_is_printable(self) -> None:
        """The process chooses its paths."""
        assert Mapping(0, 1, b"/a\n\xff b", 0, 1, False).shown_path == "/a\ufffd\ufffd b"

    @pytest.mark.parametrize(
        "line",
        [
            b"\n",
            b"1000-2000 r-xp\n",
            b"xyz-2000 r-xp 00000000 fe:00 26 /lib/a.so\n",
            b"1000-2000 r-xp 00000000 fffff:00 26 /lib/a.so\n",
            b"1000-2000 r-xp 00000000 fe:00 -26 /lib/a.so\n",
            b"11111111111111111-2000 r-xp 00000000 fe:00 26 /lib/a.so\n",
        ],
    )
    def test_malformed_line_is_skipped(self, line: bytes) -> None:
        assert list(parse_executable_mappings(line)) == []

    def test_own_mappings_lead_to_the_files_on_disk(self) -> None:
        """Python's own executable or library is among them."""
        found = list(parse_executable_mappings(Processes().maps(os.getpid())))

        assert any(os.fsencode(Path(os.fsdecode(m.path)).resolve()) == m.path for m in found if not m.is_deleted)
        assert all(m.start < m.end and m.inode for m in found)
