"""Whether a file lies on a file system that a user serves, by FUSE.

In: /proc/TGID/mountinfo, and a device. Such a file system answers when its user likes, or never. The kernel may read a page of a
library while it places a probe, with locks held that every fork on the node needs, so these files are not probed.
In a user namespace, as of a rootless container, a mount shows `user_id=0` for the user who has made the namespace. Only a refusal
shows whose it is: FUSE lets no other user read, whatever the capabilities.
Source: proc_pid_mountinfo(5); Documentation/filesystems/fuse.rst in the kernel, "Mount options".
"""

from __future__ import annotations

import os
from typing import Final

FUSE_MAGIC: Final = 0x65735546
_OF_ROOT: Final = b"user_id=0"


def is_served_by_user(mountinfo: bytes, device: int) -> bool | None:
    """Whether a mount of the device is of FUSE for another user than root; None if none of these is of the device and of FUSE.

    device: as in os.stat(). A mount that was detached while files of it are in use is in no list.
    """
    options = _options_of_fuse(mountinfo, device)
    return None if options is None else _OF_ROOT not in options


def is_fuse(mountinfo: bytes, device: int) -> bool:
    """Whether one of these mounts is of the device, and of FUSE."""
    return _options_of_fuse(mountinfo, device) is not None


def _options_of_fuse(mountinfo: bytes, device: int) -> list[bytes] | None:
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    for line in mountinfo.split(b"\n"):
        before, _, after = line.partition(b" - ")
        fields, more = before.split(b" ", 3), after.split(b" ")
        if len(fields) == 4 and len(more) >= 3 and fields[2] == wanted and more[0].startswith(b"fuse"):
            return more[2].split(b",")
    return None
