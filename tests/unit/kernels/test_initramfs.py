"""What the guest starts from: the archive as the kernel reads it, and modules in an order in which they load."""

from __future__ import annotations

import lzma
from pathlib import Path

from tests.kernels import initramfs


def module(folder: Path, name: str, depends: str, suffix: str = ".ko") -> bytes:
    """A file that says of itself what it needs, as modules do."""
    content = b"\x7fELF " + name.encode() + b"\0depends=" + depends.encode() + b"\0retpoline=Y\0"
    (folder / f"{name}{suffix}").write_bytes(lzma.compress(content) if suffix == ".ko.xz" else content)
    return content


class TestArchive:
    """The format newc of cpio(5)."""

    def test_an_entry_is_a_header_of_110_bytes_a_name_and_the_content_padded_to_four(self) -> None:
        """Mode 0100755, size 3, length of the name with its zero byte 5."""
        begin = initramfs.archive({"init": (0o755, b"abc")})[:120]

        assert begin[:62] == b"070701" + b"00000001" + b"000081ED" + b"0" * 16 + b"00000001" + b"0" * 8 + b"00000003"
        assert begin[62:] == b"0" * 32 + b"00000005" + b"0" * 8 + b"init\0\0" + b"abc\0"

    def test_folders_come_before_what_is_in_them_and_the_trailer_last(self) -> None:
        """The kernel creates no missing folders."""
        made = initramfs.archive({"a/b/c": (0o644, b"")})

        assert made.index(b"a\0") < made.index(b"a/b\0") < made.index(b"a/b/c\0") < made.index(b"TRAILER!!!\0")


class TestModules:
    """Dependencies first, once each; names with - and _ are the same; what is built in is left out."""

    def test_what_a_module_needs_is_loaded_before_it(self, tmp_path: Path) -> None:
        """9p needs netfs and 9pnet, 9pnet_virtio needs virtio and 9pnet; one of them is compressed."""
        others = set(initramfs.MODULES) - {"9p", "9pnet_virtio"}
        (tmp_path / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in others))
        net = module(tmp_path, "9pnet", "")
        virtio = module(tmp_path, "virtio", "", ".ko.xz")
        transport = module(tmp_path, "9pnet_virtio", "9pnet,virtio")
        cache = module(tmp_path, "netfs-x", "")
        files = module(tmp_path, "9p", "9pnet,netfs_x")

        assert list(initramfs.modules(tmp_path)) == [net, virtio, transport, cache, files]
