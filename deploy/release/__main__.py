"""`make release`: wheels, sources, the Helm chart, the container image, a bill of materials, checksums.

In: a commit. Out: files in an empty folder.
Everything is built in copies of the tree, so uncommitted and ignored files of this one do not matter.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from deploy.release import agreement, bill, image, packages, tree
from deploy.release.podman import Podman

ROOT = Path(__file__).parents[2]


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
    about_image.add_argument("--without-image", action="store_true", help="make no container image; needs no Podman")
    arguments = parser.parse_args()
    os.umask(0o022)
    of_image = None if arguments.without_image else (arguments.base, arguments.image_architecture)
    try:
        made = release(arguments.folder, with_uncommitted=arguments.allow_dirty, of_image=of_image)
    except (tree.NotPossible, agreement.Disagreement) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    for path in made:
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


def release(folder: Path, *, with_uncommitted: bool, of_image: tuple[str, str] | None) -> list[Path]:
    """The files of the release, the checksums last.

    of_image: the base and the architecture of the container image, as `image.pulled()` takes them; None for no image.
    """
    if folder.exists() and any(folder.iterdir()):
        raise tree.NotPossible(f"{folder} is not empty")
    epoch = tree.epoch(ROOT)
    files = tree.files(ROOT, with_uncommitted=with_uncommitted)
    version = agreement.version(ROOT)
    with tempfile.TemporaryDirectory(prefix="release-") as workshop, ExitStack() as stack:
        builder = None
        if of_image:  # first, since it is what may be missing
            podman = Podman(Path(workshop) / "podman")
            stack.callback(podman.remove_images)
            builder = image.Builder(podman, image.pulled(podman, ROOT, *of_image), of_image[1])
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
        in_image = []
        if builder:
            revision = tree.revision(ROOT)
            made.append(builder.archive(copy, folder, version, revision, epoch))
            agreement.check_image(ROOT, version, revision, made[-1])
            in_image = bill.of_image(builder.base, image.debian_packages(made[-1]))
    made.append(bill.write(folder, version, made, ROOT / "deploy" / "release" / "runtime.txt", epoch, image=in_image))
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in sorted(made)))
    return [*made, sums]


if __name__ == "__main__":
    sys.exit(main())
