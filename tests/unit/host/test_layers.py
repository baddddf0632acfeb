"""layers: paths of a file in the lower layers of an overlay."""

from __future__ import annotations

import pytest

from exporter.host.layers import LAYERS_MAX, paths_in_layers

ROOT = b"21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
PATH = b"/merged/lib/libcuda.so.1"


def overlay(options: bytes, *, point: bytes = b"/merged", root: bytes = b"/") -> bytes:
    """A line of mountinfo, with two optional fields."""
    return b"40 21 0:41 %s %s rw,relatime shared:7 master:1 - overlay overlay rw,%s\n" % (root, point, options)


class TestLayers:
    def test_lower_layers_are_tried_from_the_top(self) -> None:
        """The upper one has the copy, and is skipped."""
        mountinfo = ROOT + overlay(b"lowerdir=/l/2:/l/1,upperdir=/u,workdir=/w")

        assert paths_in_layers(mountinfo, PATH) == [b"/l/2/lib/libcuda.so.1", b"/l/1/lib/libcuda.so.1"]

    def test_overlay_is_the_root_of_a_container(self) -> None:
        """The usual case."""
        assert paths_in_layers(overlay(b"lowerdir=/l", point=b"/"), b"/lib/x.so") == [b"/l/lib/x.so"]

    def test_bind_mount_of_a_part_of_an_overlay(self) -> None:
        """The path is relative to a folder of the file system."""
        mountinfo = ROOT + overlay(b"lowerdir=/l", root=b"/opt/cuda")

        assert paths_in_layers(mountinfo, PATH) == [b"/l/opt/cuda/lib/libcuda.so.1"]

    @pytest.mark.parametrize(
        ("options", "layers"),
        [
            (rb"lowerdir=/a\040b:/c\134:d", [b"/a b", b"/c:d"]),
            (rb"lowerdir=/a\054b", [b"/a,b"]),
            (b"lowerdir+=/a,lowerdir+=/b:c", [b"/a", b"/b:c"]),
            (b"lowerdir=/a::/data", [b"/a", b"/data"]),
            (b"lowerdir=l/A:l/B", []),
            (b"upperdir=/u", []),
        ],
    )
    def test_every_form_of_the_option_is_read(self, options: bytes, layers: list[bytes]) -> None:
        """Spaces, colons and commas in a name; one option for each layer; layers of data only; relative paths are skipped."""
        found = paths_in_layers(overlay(options), PATH)

        assert found == [layer + b"/lib/libcuda.so.1" for layer in layers]

    def test_other_file_system_mounted_on_top_hides_the_overlay(self) -> None:
        """A driver's libraries mounted into the container."""
        on_top = b"41 40 254:0 /usr /merged/lib ro - ext4 /dev/vda rw\n"

        assert paths_in_layers(overlay(b"lowerdir=/l") + on_top, PATH) == []

    def test_later_mount_covers_an_earlier_one(self) -> None:
        mountinfo = overlay(b"lowerdir=/old") + overlay(b"lowerdir=/new")

        assert paths_in_layers(mountinfo, PATH) == [b"/new/lib/libcuda.so.1"]

    def test_prefix_of_a_folder_name_does_not_match(self) -> None:
        """/merged2 is not in /merged."""
        assert paths_in_layers(overlay(b"lowerdir=/l"), b"/merged2/libcuda.so.1") == []

    @pytest.mark.parametrize("mountinfo", [b"", b"\n", b" - \n", b"1 2 3 - overlay\n", b"40 21 0:41 / /merged\n"])
    def test_malformed_lines_are_skipped(self, mountinfo: bytes) -> None:
        """Cut at a limit, or empty."""
        assert paths_in_layers(mountinfo, PATH) == []

    def test_number_of_layers_is_limited(self) -> None:
        """A container chooses how many there are."""
        many = b":".join(b"/%d" % number for number in range(500))

        assert len(paths_in_layers(overlay(b"lowerdir=" + many), PATH)) == LAYERS_MAX
