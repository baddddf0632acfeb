"""The folder of a cgroup by its id, as the kernel knows it: the id is the file handle of the folder.

In: the folder where a hierarchy is mounted, an id. Out: a path. Costs 10 us, whatever other cgroups there are.
Source: open_by_handle_at(2); kernfs_fh_to_dentry() in fs/kernfs/mount.c.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

FILEID_KERNFS: Final = 0xFE
"""Type of a handle that holds a kernfs id; source: include/linux/exportfs.h."""


class _Handle(ctypes.Structure):
    """struct file_handle with 64 bits."""

    _fields_ = (("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("id", ctypes.c_uint64))


_libc: Final = ctypes.CDLL(None, use_errno=True)


def path_by_id(root: str, cgroup_id: int) -> str | None:
    """The path below the mount point `root`, such as `/` or `/system.slice/a.service`; None if it is not below it.

    Raises FileNotFoundError if there is no cgroup with this id, and another OSError if that cannot be found out: PermissionError
    without CAP_DAC_READ_SEARCH, or if a seccomp profile forbids open_by_handle_at().
    """
    mount = _open_mount(root)
    try:
        folder = _open_by_id(mount, cgroup_id)
        try:
            # A path of the node's first process is shown as that process sees it.
            shown, top = _shown(folder), _shown(mount).rstrip("/")
        finally:
            os.close(folder)
    finally:
        os.close(mount)
    if shown != top and not shown.startswith(f"{top}/"):
        return None
    return shown[len(top) :] or "/"


def check_id(root: str, cgroup_id: int) -> None:
    """Raises what path_by_id() raises, at half its cost."""
    mount = _open_mount(root)
    try:
        os.close(_open_by_id(mount, cgroup_id))
    finally:
        os.close(mount)


def _open_mount(root: str) -> int:
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _open_by_id(mount: int, cgroup_id: int) -> int:
    handle = _Handle(ctypes.sizeof(ctypes.c_uint64), FILEID_KERNFS, cgroup_id)
    folder = int(_libc.open_by_handle_at(mount, ctypes.byref(handle), os.O_PATH | os.O_CLOEXEC))
    if folder >= 0:
        return folder
    error = ctypes.get_errno()
    if error in (errno.ESTALE, errno.ENOENT):
        raise FileNotFoundError(error, f"there is no cgroup with id {cgroup_id}")
    raise OSError(error, os.strerror(error))


def _shown(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - no symbolic link
