"""disks: names, over a fake /sys."""

from __future__ import annotations

from pathlib import Path

from exporter.host.disks import MAX_NAMES, Disks


def test_name_is_the_target_of_the_link(tmp_path: Path) -> None:
    (tmp_path / "259:0").symlink_to("../../devices/pci0/nvme/nvme0n1")

    assert Disks(tmp_path).name("259:0") == "nvme0n1"


def test_name_stays_when_the_disk_is_gone(tmp_path: Path) -> None:
    """Its counters stay exported."""
    link = tmp_path / "7:3"
    link.symlink_to("../../devices/virtual/block/loop3")
    disks = Disks(tmp_path)
    disks.name("7:3")
    link.unlink()

    assert disks.name("7:3") == "loop3"


def test_disk_that_is_gone_already_has_its_number(tmp_path: Path) -> None:
    assert Disks(tmp_path).name("8:16") == "8:16"


def test_disk_beyond_the_limit_is_other(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    for minor in range(MAX_NAMES):
        disks.name(f"8:{minor}")

    assert disks.name("9:0") == "other"
    assert disks.name("8:0") == "8:0"
