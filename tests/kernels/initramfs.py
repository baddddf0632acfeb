"""Makes the initramfs that a kernel boots from: init, a shell, and the modules to mount a root.

In: the files of a kernel package. Out: the archive's bytes, in the format `newc` of cpio(5), which is the one kernels read.
"""

from __future__ import annotations

import lzma
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_OF_ROOT = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_blk", "crc32c_generic", "ext4")
_OF_NETWORK = ("veth", "sch_ingress", "cls_bpf", "tcp_diag")
MODULES = (*_OF_ROOT, *_OF_NETWORK)
"""Modules for the guest's file systems and for the network tests."""

_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def is_needed(path: Path) -> bool:
    """Whether a file of a kernel package is used: the kernel, its configuration and the modules above."""
    return path.parts[0] == "boot" or path.name == "modules.builtin" or path.name.partition(".")[0] in _CANDIDATES


_CANDIDATES = {
    *MODULES,
    *("virtio", "virtio_ring", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "9pnet", "netfs", "fscache"),
    *("crc16", "mbcache", "jbd2", "libcrc32c"),
    "inet_diag",
}


EDITION = f"_{zlib.crc32(' '.join(sorted(_CANDIDATES)).encode()):08x}"
"""Changes with the set of files that is kept, so that a package unpacked with fewer files is not reused."""


def modules(folder: Path) -> Iterator[bytes]:
    """MODULES and their dependencies in load order, without built-in ones."""
    files = {_name(path): path for path in folder.rglob("*.ko*")}
    (builtin_list,) = folder.rglob("modules.builtin")
    builtin = {_name(Path(line)) for line in builtin_list.read_text(encoding="ascii").split()}
    done: set[str] = set()

    def load(name: str) -> Iterator[bytes]:
        if name in done or name in builtin:
            return
        done.add(name)
        content = _content(files[name])
        found = _DEPENDS.search(content)
        for needed in found[1].decode().split(",") if found and found[1] else ():
            yield from load(needed.replace("-", "_"))
        yield content

    for name in MODULES:
        yield from load(name)


def _name(path: Path) -> str:
    return path.name.partition(".")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def archive(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """files: path -> permissions and content. Parent directories are added."""
    folders = {str(parent) for path in files for parent in Path(path).parents if str(parent) != "."}
    entries = [(folder, stat.S_IFDIR | 0o755, b"") for folder in sorted(folders)]
    entries += [(path, stat.S_IFREG | mode, content) for path, (mode, content) in files.items()]
    return b"".join(_entries([*entries, ("TRAILER!!!", 0, b"")]))


def _entries(entries: Iterable[tuple[str, int, bytes]]) -> Iterator[bytes]:
    for number, (path, mode, content) in enumerate(entries, 1):
        name = path.encode() + b"\0"
        # Magic, inode, mode, owner, group, links, time, size, device twice, length of the name, checksum.
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        yield _padded(header + name) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
