"""layers: where a file of an overlay lies below it."""

from __future__ import annotations

import pytest

from exporter.host.layers import LAYERS_MAX, paths_in_layers

ROOT = b"21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
PATH = b"/merged/lib/libcuda.so.1"


def overlay(options: bytes, *, point: bytes = b"/merged", root: bytes = b"/") -> bytes:
    """A line of mountinfo, with two optional fields."""
    return b"40 21 0:41 %s %s rw,relatime shared:7 master:1 - overlay overlay rw,%s\n" % (root, point, options)


class TestLayers:
    """Paths to try."""

    def test_every_lower_layer_from_the_top(self) -> None:
        """The upper one holds the copy and is left out."""
        mountinfo = ROOT + overlay(b"lowerdir=/l/2:/l/1,upperdir=/u,workdir=/w")

        assert paths_in_layers(mountinfo, PATH) == [b"/l/2/lib/libcuda.so.1", b"/l/1/lib/libcuda.so.1"]

    def test_a_container_whose_root_is_the_overlay(self) -> None:
        """As most are."""
        assert paths_in_layers(overlay(b"lowerdir=/l", point=b"/"), b"/lib/x.so") == [b"/l/lib/x.so"]

    def test_a_part_of_an_overlay_mounted_elsewhere(self) -> None:
        """A bind mount: the path begins in a folder of the file system."""
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
    def test_forms_of_the_option(self, options: bytes, layers: list[bytes]) -> None:
        """Spaces, colons and commas in a name; one option each; layers of data alone; paths relative to who knows what."""
        found = paths_in_layers(overlay(options), PATH)

        assert found == [layer + b"/lib/libcuda.so.1" for layer in layers]

    def test_another_file_system_on_top(self) -> None:
        """A driver's libraries mounted into the container: the overlay is not what the path leads to."""
        on_top = b"41 40 254:0 /usr /merged/lib ro - ext4 /dev/vda rw\n"

        assert paths_in_layers(overlay(b"lowerdir=/l") + on_top, PATH) == []

    def test_two_mounts_at_one_place(self) -> None:
        """The later one covers the earlier."""
        mountinfo = overlay(b"lowerdir=/old") + overlay(b"lowerdir=/new")

        assert paths_in_layers(mountinfo, PATH) == [b"/new/lib/libcuda.so.1"]

    def test_a_folder_whose_name_begins_alike(self) -> None:
        """/merged2 is not in /merged."""
        assert paths_in_layers(overlay(b"lowerdir=/l"), b"/merged2/libcuda.so.1") == []

    @pytest.mark.parametrize("mountinfo", [b"", b"\n", b" - \n", b"1 2 3 - overlay\n", b"40 21 0:41 / /merged\n"])
    def test_lines_of_another_form_are_passed_over(self, mountinfo: bytes) -> None:
        """Cut at a limit, or empty."""
        assert paths_in_layers(mountinfo, PATH) == []

    def test_there_is_a_limit(self) -> None:
        """A container chooses how many."""
        many = b":".join(b"/%d" % number for number in range(500))

        assert len(paths_in_layers(overlay(b"lowerdir=" + many), PATH)) == LAYERS_MAX
