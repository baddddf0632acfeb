"""host.user_file_systems: FUSE, and for which user."""

from __future__ import annotations

import os

import pytest

from exporter.host.user_file_systems import is_fuse, is_served_by_user

BY_USER = b"36 25 0:45 / /home/u/mnt rw,nosuid - fuse.sshfs me@host:/ rw,user_id=1000,group_id=1000\n"
BY_ROOT = b"37 25 0:46 / /data rw - fuse.juicefs JuiceFS:data rw,user_id=0,group_id=0,allow_other\n"
ROOT = b"25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
MOUNTINFO = ROOT + BY_USER + BY_ROOT


class TestIsServedByUser:
    @pytest.mark.parametrize(
        ("minor", "is_served"), [pytest.param(45, True, id="user"), pytest.param(46, False, id="root")]
    )
    def test_user_of_the_mount_counts(self, minor: int, *, is_served: bool) -> None:
        assert is_served_by_user(MOUNTINFO, os.makedev(0, minor)) is is_served

    @pytest.mark.parametrize("device", [os.makedev(254, 0), os.makedev(0, 47)], ids=["ext4", "in no line"])
    def test_file_system_that_is_not_listed_as_fuse_is_unknown(self, device: int) -> None:
        """One of FUSE may have been detached."""
        assert is_served_by_user(MOUNTINFO, device) is None

    def test_mount_in_a_user_namespace_shows_root_for_its_user(self) -> None:
        """As squashfuse does in a rootless container."""
        mount = b"201 179 0:59 / /image rw,nosuid,nodev - fuse.squashfuse squashfuse rw,user_id=0,group_id=0\n"

        assert is_fuse(mount, os.makedev(0, 59))
        assert not is_served_by_user(mount, os.makedev(0, 59))

    def test_name_of_the_source_is_no_option(self) -> None:
        """A user chooses it."""
        mount = b"36 25 0:45 / /mnt rw - fuse user_id=0 rw,user_id=1000,group_id=1000\n"

        assert is_served_by_user(mount, os.makedev(0, 45))

    @pytest.mark.parametrize("line", [b"", b"\n", b"36 25\n", b"36 25 0:45 - fuse\n"])
    def test_line_of_another_form_is_skipped(self, line: bytes) -> None:
        assert is_served_by_user(line, os.makedev(0, 45)) is None
