"""Names of disks, over a fake /sys."""

from __future__ import annotations

from pathlib import Path

from exporter.host.disks import MAX_NAMES, Disks


def test_name_is_that_of_the_folder_it_leads_to(tmp_path: Path) -> None:
    """As in /sys/dev/block."""
    (tmp_path / "259:0").symlink_to("../../devices/pci0/nvme/nvme0n1")

    assert Disks(tmp_path).name("259:0") == "nvme0n1"


def test_name_stays_when_the_disk_is_gone(tmp_path: Path) -> None:
    """What it did goes on to be told."""
    link = tmp_path / "7:3"
    link.symlink_to("../../devices/virtual/block/loop3")
    disks = Disks(tmp_path)
    disks.name("7:3")
    link.unlink()

    assert disks.name("7:3") == "loop3"


def test_disk_that_nobody_has_seen_has_its_number(tmp_path: Path) -> None:
    """It was gone before anybody asked."""
    assert Disks(tmp_path).name("8:16") == "8:16"


def test_number_beyond_the_table_is_other(tmp_path: Path) -> None:
    """The label stays bounded."""
    disks = Disks(tmp_path)
    for minor in range(MAX_NAMES):
        disks.name(f"8:{minor}")

    assert disks.name("9:0") == "other"
    assert disks.name("8:0") == "8:0"
