"""The magic numbers of network file systems in bpf/lib/blocked.bpf.h are those of the kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = (Path(__file__).parents[2] / "bpf" / "lib" / "blocked.bpf.h").read_text(encoding="utf-8")
MAGIC = Path("/usr/include/linux/magic.h")
OF_NETWORK = {
    "NFS_SUPER_MAGIC",
    "SMB_SUPER_MAGIC",
    "CIFS_SUPER_MAGIC",
    "SMB2_SUPER_MAGIC",
    "CEPH_SUPER_MAGIC",
    "V9FS_MAGIC",
    "AFS_SUPER_MAGIC",
    "AFS_FS_MAGIC",
    "CODA_SUPER_MAGIC",
}
"""Names in linux/magic.h."""
OUTSIDE_THE_KERNEL = {0x0BD00BD0, 0x19830326, 0x47504653, 0xAAD7AAEA}
"""Lustre, BeeGFS, GPFS, PanFS. Source: stat(1) of coreutils."""


@pytest.mark.skipif(not MAGIC.exists(), reason=f"needs {MAGIC}, of the kernel's headers for C")
def test_numbers_are_those_of_the_kernel() -> None:
    """No other file system is listed; FUSE and disks shared by several machines are not included."""
    known = dict(re.findall(r"^#define\s+(\w+)\s+(0x[0-9A-Fa-f]+)", MAGIC.read_text(encoding="ascii"), flags=re.M))
    cases = {int(number, 16) for number in re.findall(r"case (0x[0-9a-f]+):", SOURCE)}

    assert cases - OUTSIDE_THE_KERNEL == {int(known[name], 16) for name in OF_NETWORK}
