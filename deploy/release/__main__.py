"""`make release`: wheels, sources, the Helm chart, the container image, a bill of materials, checksums.

In: a commit. Out: files in an empty folder.
Everything is built in copies of the tree, so uncommitted and ignored files of this one do not matter. The container image needs
a registry and comes last: without one everything else is there, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from cyclonedx.model.component import Component

from deploy.release import agreement, bill, image, packages, tree
from deploy.release.podman import Podman

ROOT = Path(__file__).parents[2]


class WantedImage(NamedTuple):
    """base, architecture: as `image.pulled()` takes them. preparation: a command that installs what makes it; "" for none."""

    base: str = ""
    architecture: str = ""
    preparation: str = ""


class Made(NamedTuple):
    """files: the checksums last. no_image: why the container image that was wanted is missing, else ""."""

    files: list[Path]
    no_image: str = ""


def main() -> int:
    """Returns 0, or 1 after an error message."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("folder", type=Path, help="output folder, created if missing; must be empty")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="use files as they are now, uncommitted ones included"
    )
    about_image = parser.add_mutually_exclusive_group()
    about_image.add_argument(
        "--base",
        default="",
        help="base of the container image: NAME@sha256:…, NAME:TAG, docker-archive:FILE or oci-archive:FILE [the Dockerfile's]",
    )
    parser.add_argument(
        "--image-architecture",
        default="",
        help="Debian's name of the image's architecture, run by an emulator [this machine's]",
    )
    parser.add_argument(
        "--before-image",
        metavar="COMMAND",
        default="",
        help="command that installs what makes the image, run when everything else is made [none]",
    )
    about_image.add_argument("--without-image", action="store_true", help="make no container image; needs no Podman")
    arguments = parser.parse_args()
    os.umask(0o022)
    wanted = WantedImage(arguments.base, arguments.image_architecture, arguments.before_image)
    of_image = None if arguments.without_image else wanted
    try:
        made = release(arguments.folder, with_uncommitted=arguments.allow_dirty, of_image=of_image)
    except (tree.NotPossible, agreement.Disagreement) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    for path in made.files:
        print(f"{path}: {path.stat().st_size:,} bytes")
    if made.no_image:
        print(
            f"make release: the release is incomplete: no container image was made: {made.no_image}\n"
            f"make release: {len(made.files)} other files are in {arguments.folder}; SHA256SUMS and the bill of materials list"
            " only these",
            file=sys.stderr,
        )
        return 1
    return 0


def release(folder: Path, *, with_uncommitted: bool, of_image: WantedImage | None) -> Made:
    """The files of the release. of_image: None for a release without a container image."""
    if folder.exists() and any(folder.iterdir()):
        raise tree.NotPossible(f"{folder} is not empty")
    epoch = tree.epoch(ROOT)
    files = tree.files(ROOT, with_uncommitted=with_uncommitted)
    version = agreement.version(ROOT)
    with tempfile.TemporaryDirectory(prefix="release-") as workshop:
        folder.mkdir(parents=True, exist_ok=True)
        made = []
        for machine in packages.MACHINES:
            copy = Path(workshop) / machine
            tree.copy(ROOT, files, copy, epoch)
            made += [packages.wheel(copy, folder, machine, epoch), packages.standin_wheel(copy, folder, machine, epoch)]
        copy = Path(workshop) / "sources"
        tree.copy(ROOT, files, copy, epoch)
        made.append(packages.sources(copy, folder, epoch))
        agreement.check(ROOT, version, made)
        made.append(packages.chart(copy, folder, version, epoch))
        in_image: list[Component] = []
        no_image = ""
        if of_image:
            try:
                archive, in_image = _image(of_image, copy, folder, version, epoch)
                made.append(archive)
            except tree.NotPossible as error:
                no_image = str(error)
    made.append(bill.write(folder, version, made, ROOT / "deploy" / "release" / "runtime.txt", epoch, image=in_image))
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in sorted(made)))
    return Made([*made, sums], no_image)


def _image(wanted: WantedImage, copy: Path, folder: Path, version: str, epoch: int) -> tuple[Path, list[Component]]:
    """The archive and what is in it. copy: of the tree. Raises NotPossible, for what this machine or its network lacks."""
    if wanted.preparation and subprocess.run(shlex.split(wanted.preparation), check=False).returncode:
        raise tree.NotPossible(
            f"`{wanted.preparation}` failed; install what it names, or leave the image out with IMAGE=no"
        )
    with tempfile.TemporaryDirectory(prefix="release-podman-") as storage, ExitStack() as stack:
        podman = Podman(Path(storage))
        stack.callback(podman.remove_images)
        base = image.pulled(podman, ROOT, wanted.base, wanted.architecture)
        revision = tree.revision(ROOT)
        archive = image.Builder(podman, base, wanted.architecture).archive(copy, folder, version, revision, epoch)
    agreement.check_image(ROOT, version, revision, archive)
    return archive, bill.of_image(base, image.debian_packages(archive))


if __name__ == "__main__":
    sys.exit(main())
