"""Whether a file lies on a file system that a user serves, by FUSE.

In: /proc/TGID/mountinfo, and a device. Such a file system answers when its user likes, or never. The kernel may read a page of a
library while it places a probe, with locks held that every fork on the node needs, so these files are not probed.
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
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    for line in mountinfo.split(b"\n"):
        before, _, after = line.partition(b" - ")
        fields, more = before.split(b" ", 3), after.split(b" ")
        if len(fields) == 4 and len(more) >= 3 and fields[2] == wanted and more[0].startswith(b"fuse"):
            return _OF_ROOT not in more[2].split(b",")
    return None
