r"""Paths of a file in the lower layers of an overlay.

In: /proc/TGID/mountinfo, in which a container chooses the paths. Out: paths to try, in the mount namespace where the overlay was
mounted. A process that mapped a file before its container changed it still uses the one of the layer, while its path leads to the
copy.
Source: proc_pid_mountinfo(5); ovl_show_options() in the kernel's fs/overlayfs/params.c. Before, in the last field of a line:
b"rw,lowerdir=/a\\072b:/c,upperdir=/d". After: [b"/a:b", b"/c"].
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

LAYERS_MAX: Final = 128  # what container runtimes stack at most
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
_COLON: Final = re.compile(rb"(?<!\\):")
_BACKSLASHED: Final = re.compile(rb"\\(.)", re.DOTALL)


class _Mount(NamedTuple):
    """root: the folder of the file system that is mounted. point: where. Both with a slash at the end."""

    root: bytes
    point: bytes
    kind: bytes
    options: bytes


def paths_in_layers(mountinfo: bytes, path: bytes) -> list[bytes]:
    """Where a file of an overlay may be in its lower layers, topmost first; empty when the path is on no overlay."""
    covering = [mount for mount in _mounts(mountinfo) if path.startswith(mount.point)]
    if not covering:
        return []
    mount = max(
        reversed(covering), key=lambda one: len(one.point)
    )  # of two mounts at one point the later one covers the other
    if mount.kind != b"overlay":
        return []
    inside = mount.root + path[len(mount.point) :]
    return [layer.rstrip(b"/") + inside for layer in _lower_layers(mount.options)][:LAYERS_MAX]


def _mounts(mountinfo: bytes) -> Iterator[_Mount]:
    for line in mountinfo.split(b"\n"):
        before, separator, after = line.partition(b" - ")
        fields, more = before.split(b" "), after.split(b" ")
        if separator and len(fields) >= 5 and len(more) >= 3:
            root, point = (_unescaped(field).rstrip(b"/") + b"/" for field in fields[3:5])
            yield _Mount(root, point, more[0], more[2])


def _lower_layers(options: bytes) -> Iterator[bytes]:
    """One option with colons between the folders, or one `lowerdir+` each, as newer mount programs give them."""
    for option in options.split(b","):
        name, _, value = option.partition(b"=")
        value = _unescaped(value)
        if name == b"lowerdir":
            yield from (_BACKSLASHED.sub(rb"\1", layer) for layer in _COLON.split(value) if layer.startswith(b"/"))
        elif name == b"lowerdir+" and value.startswith(b"/"):
            yield value


def _unescaped(field: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), field)
