"""One file or two for a uprobe: with any mounts, links and copies, each call is counted once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.config.probes import AttachKind
from tests.support.discovering import LIBRARIES, Scene, copied, discovering, recorded
from tests.support.held_calls import HeldCalls, held_calls
from tests.support.mounts import MountNamespace, mount_namespace
from tests.support.requirements import need_command

# Not single ones: the kernel takes 0.1 s to remove each of the 400 in whole libraries.
pytestmark = pytest.mark.parametrize("attach_kind", [AttachKind.SESSION, AttachKind.MULTI], indirect=True)
ONCE = list(LIBRARIES)
TWICE = sorted(LIBRARIES * 2)


@pytest.fixture
def scene(attach_kind: AttachKind) -> Iterator[Scene]:
    """All programs, attached to nothing yet."""
    with discovering(attach_kind) as found:
        yield found


@pytest.fixture
def inside() -> Iterator[MountNamespace]:
    """A mount namespace."""
    with mount_namespace() as found:
        yield found


@pytest.fixture(params=["disk", "tmpfs"])
def base(request: pytest.FixtureRequest, inside: MountNamespace, tmp_path: Path) -> Path:
    """A directory for layers, on a file system of each kind; its path inside."""
    return tmp_path if request.param == "disk" else inside.mount("tmpfs", "none", tmp_path / "memory")


@pytest.fixture
def jobs(inside: MountNamespace) -> Iterator[Jobs]:
    """Ends before the namespace."""
    with ExitStack() as stack:
        yield Jobs(inside, stack)


class Jobs:
    """Jobs on hold, each with libraries from a directory inside."""

    def __init__(self, inside: MountNamespace, stack: ExitStack) -> None:
        self._inside = inside
        self._stack = stack

    def start(self, libraries: Path, calls: int) -> HeldCalls:
        """A job that will record this many events."""
        order = f"cudaEventRecord:{calls}"
        return self._stack.enter_context(held_calls(order, libraries=libraries, before=self._inside.enter))


def _layer(inside: MountNamespace, base: Path) -> Path:
    """A directory with the libraries, inside."""
    copied(inside.seen(base / "layer"))
    return base / "layer"


class TestOneFile:
    """Several names, one inode below: probed once."""

    def test_two_containers_of_one_image(self, scene: Scene, inside: MountNamespace, base: Path, jobs: Jobs) -> None:
        """Two overlays over one layer: 23 and 29 calls through one attachment."""
        layer = _layer(inside, base)
        first = jobs.start(inside.overlay("first", layer, base), 23)
        second = jobs.start(inside.overlay("second", layer, base), 29)
        scene.walk_all()
        first.make()
        second.make()

        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(base) == ONCE
        assert scene.drops() == {}

    def test_a_layer_that_is_used_directly_as_well(
        self, scene: Scene, inside: MountNamespace, base: Path, jobs: Jobs
    ) -> None:
        """A job on the node and one in a container: their devices differ."""
        layer = _layer(inside, base)
        first = jobs.start(layer, 23)
        second = jobs.start(inside.overlay("merged", layer, base), 29)
        scene.walk_all()
        first.make()
        second.make()

        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(base) == ONCE

    def test_overlays_that_number_inodes_in_different_ways(
        self, scene: Scene, inside: MountNamespace, tmp_path: Path, jobs: Jobs
    ) -> None:
        """xino puts the number of the layer into the high bits of the inode number: one file has two numbers."""
        layer = _layer(inside, tmp_path)
        memory = inside.mount("tmpfs", "none", tmp_path / "memory")
        plain = inside.overlay("plain", layer, memory, "xino=off")
        marked = inside.overlay("marked", layer, memory, "xino=on")
        numbers = [inside.seen(folder / LIBRARIES[0]).stat().st_ino for folder in (plain, marked)]
        first, second = jobs.start(plain, 23), jobs.start(marked, 29)
        scene.walk_all()
        first.make()
        second.make()

        assert numbers[0] != numbers[1]
        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(tmp_path) == ONCE

    def test_a_copy_of_nothing_but_the_attributes(
        self, scene: Scene, inside: MountNamespace, base: Path, jobs: Jobs
    ) -> None:
        """With metacopy, chmod in a container copies no data: a different ctime, the same file below."""
        layer = _layer(inside, base)
        merged = inside.overlay("merged", layer, base, "metacopy=on")
        inside.run("chmod", "0700", *(merged / name for name in LIBRARIES))
        first, second = jobs.start(layer, 23), jobs.start(merged, 29)
        scene.walk_all()
        first.make()
        second.make()

        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(base) == ONCE

    def test_an_overlay_over_an_overlay(self, scene: Scene, inside: MountNamespace, base: Path, jobs: Jobs) -> None:
        """A container that runs containers: both use the layer below."""
        layer = _layer(inside, base)
        merged = inside.overlay("outer", layer, base)
        upper = inside.mount("tmpfs", "none", base / "upper")
        nested = inside.overlay("nested", merged, upper)
        first, second = jobs.start(merged, 23), jobs.start(nested, 29)
        scene.walk_all()
        first.make()
        second.make()

        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(base) == ONCE

    def test_a_root_of_its_own(self, scene: Scene, inside: MountNamespace, tmp_path: Path, jobs: Jobs) -> None:
        """A container with its own root and the node's libraries mounted: the path does not exist outside."""
        folder, root = copied(tmp_path / "host"), tmp_path / "root"
        inside.mount("tmpfs", "none", root)
        inside.run("mkdir", "-p", *(root / name for name in ("usr", "job", "driver", "old")))
        inside.run("cp", "-a", *self._links(), root)
        inside.run("mount", "--bind", "/usr", root / "usr")
        inside.run("mount", "--bind", standin.build_dir(), root / "job")
        inside.run("mount", "--bind", folder, root / "driver")
        within = (*inside.enter, "chroot", str(root), "env", "LD_LIBRARY_PATH=/driver", "/job/calls", "--hold")
        first = jobs.start(folder, 23)
        process = subprocess.Popen(
            [*within, "cudaEventRecord:29"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process:
            second = HeldCalls(process, (int(process.stdout.readline().split()[1]),))
            scene.walk_all()
            first.make()
            second.make()

            assert not Path("/driver").exists()
            assert scene.calls(first.tgids[0]) == recorded(23)
            assert scene.calls(second.tgids[0]) == recorded(29)
            assert sorted(scene.probed(folder) + scene.probed(Path("/driver"))) == ONCE
            second.end()

    @staticmethod
    def _links() -> list[str]:
        """Links such as /lib that lead into /usr."""
        return [f"/{name}" for name in ("lib", "lib64", "bin") if Path(f"/{name}").is_symlink()]


class TestTwoFiles:
    """One name, or one number, and two inodes below: both are probed."""

    def test_a_library_that_a_container_has_copied_up(
        self, scene: Scene, inside: MountNamespace, base: Path, jobs: Jobs
    ) -> None:
        """chmod in one of two containers before its job begins: its libraries are then its own."""
        layer = _layer(inside, base)
        plain, changed = inside.overlay("plain", layer, base), inside.overlay("changed", layer, base)
        inside.run("chmod", "0700", *(changed / name for name in LIBRARIES))
        first, second = jobs.start(plain, 23), jobs.start(changed, 29)
        scene.walk_all()
        first.make()
        second.make()

        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(base) == TWICE

    def test_a_library_that_is_copied_up_between_two_jobs(
        self, scene: Scene, inside: MountNamespace, base: Path, jobs: Jobs
    ) -> None:
        """Both in one container, by one path, with one device and inode number in /proc: the first maps the file of the layer."""
        merged = inside.overlay("merged", _layer(inside, base), base)
        first = jobs.start(merged, 23)
        scene.walk_all()
        inside.run("chmod", "0700", *(merged / name for name in LIBRARIES))
        second = jobs.start(merged, 29)
        scene.walk_all()
        first.make()
        second.make()

        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(base) == TWICE

    def test_a_library_that_is_copied_up_under_a_running_job(
        self, scene: Scene, inside: MountNamespace, base: Path, jobs: Jobs
    ) -> None:
        """Before the exporter starts: every path leads to the copy; the file that the job runs is found in its layer."""
        merged = inside.overlay("merged", _layer(inside, base), base)
        first = jobs.start(merged, 23)
        inside.run("chmod", "0700", *(merged / name for name in LIBRARIES))
        second = jobs.start(merged, 29)
        scene.walk_all()
        first.make()
        second.make()

        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(base) == TWICE

    def test_a_library_whose_layer_is_out_of_reach(
        self, scene: Scene, inside: MountNamespace, tmp_path: Path, jobs: Jobs
    ) -> None:
        """Its file was deleted: it is counted once as not probed, and the copy is not probed instead."""
        layer = _layer(inside, tmp_path)
        merged = inside.overlay("merged", layer, tmp_path)
        first = jobs.start(merged, 23)
        inside.run("chmod", "0700", *(merged / name for name in LIBRARIES))
        for name in LIBRARIES:
            (tmp_path / "layer" / name).unlink()
        scene.walk_all()
        scene.walk_all()
        first.make()

        assert scene.calls(first.tgids[0]) == {}
        assert scene.probed_below(tmp_path) == []
        assert [scene.discovery.failures[kind, "hidden"] for kind in ("driver", "runtime", "nccl")] == [1, 1, 1]

    def test_copies_of_one_disk_image(self, scene: Scene, inside: MountNamespace, tmp_path: Path, jobs: Jobs) -> None:
        """Each with an overlay of its own: inode number and ctime are equal, but the files differ."""
        need_command("mkfs.ext4", "e2fsprogs")
        if not Path("/dev/loop-control").exists():
            pytest.skip("needs loop devices, to mount a disk image")
        copied(tmp_path / "source")
        image = tmp_path / "first.image"
        image.touch()
        os.truncate(image, 16 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-d", tmp_path / "source", image], check=True)
        copy = tmp_path / "second.image"
        copy.write_bytes(image.read_bytes())
        merged = [
            inside.overlay(name, inside.mount("ext4", disk, tmp_path / f"{name}.disk", "ro", "loop"), tmp_path)
            for name, disk in (("first", image), ("second", copy))
        ]
        stats = [inside.seen(folder / LIBRARIES[0]).stat() for folder in merged]
        first, second = jobs.start(merged[0], 23), jobs.start(merged[1], 29)
        scene.walk_all()
        first.make()
        second.make()

        assert (stats[0].st_ino, stats[0].st_ctime_ns) == (stats[1].st_ino, stats[1].st_ctime_ns)
        assert scene.calls(first.tgids[0]) == recorded(23)
        assert scene.calls(second.tgids[0]) == recorded(29)
        assert scene.probed_below(tmp_path) == TWICE

    def test_a_new_version_under_a_running_job(self, scene: Scene, tmp_path: Path) -> None:
        """It replaces the old one by a rename: both are probed, the old one while it is mapped."""
        folder = copied(tmp_path / "libraries")
        with held_calls("cudaEventRecord:23", libraries=folder) as old:
            scene.walk_all()
            for name in LIBRARIES:
                fresh = folder / f"{name}.new"
                fresh.write_bytes((folder / name).read_bytes() + b"a later version")
                fresh.rename(folder / name)
            with held_calls("cudaEventRecord:29", libraries=folder) as new:
                scene.walk_all()
                while_both = scene.probed(folder)
                old.make()
                new.make()
                old.end()
                scene.walk_all()
                scene.walk_all()

                assert scene.calls(old.tgids[0]) == recorded(23)
                assert scene.calls(new.tgids[0]) == recorded(29)
                assert (while_both, scene.probed(folder)) == (TWICE, ONCE)
                assert scene.drops() == {}
