"""The container image of deploy/docker/Dockerfile as an archive, which `docker load` reads, and unpacked `podman load`.

In: a copy of the tree, and a base image. Out: one file. Podman builds it without root, in a storage that is removed.
The same commit on the same base gives the same bytes as long as Debian's archive has the same versions of the packages.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from deploy.release.podman import Podman, pip_secrets
from deploy.release.tree import NotPossible

DOCKERFILE: Final = "deploy/docker/Dockerfile"
NAME: Final = "docker.io/library/gpu-stall-exporter"
"""Docker and the manifests of deploy/ call it gpu-stall-exporter."""

_ARCHIVES: Final = ("docker-archive:", "oci-archive:")
_LABEL: Final = "org.opencontainers.image"


class Base(NamedTuple):
    """A base image in the storage. reference: as the bill of materials names it."""

    image_id: str
    reference: str
    digest: str


class DebianPackage(NamedTuple):
    """A package of Debian in an image."""

    name: str
    version: str
    architecture: str


def pulled(podman: Podman, root: Path, wanted: str, architecture: str = "") -> Base:
    """The base image. wanted: NAME@sha256:…, a NAME:TAG, docker-archive:FILE, oci-archive:FILE; "" for that of the Dockerfile.

    Raises NotPossible if it cannot be had. A tag is resolved once: image and bill of materials record the digest.
    """
    reference = full_name(wanted or _default(root))
    flags = [f"--arch={architecture}"] if architecture else []
    code, text = podman.attempt("pull", "--quiet", *flags, reference)
    image_ids = re.findall(r"^[0-9a-f]{64}$", text, flags=re.MULTILINE)  # there may be warnings beside it
    if code or not image_ids:
        reason = text.strip().rpartition("\n")[2]
        raise NotPossible(
            f"cannot pull the base image {reference}: {reason};"
            " name another one with BASE=NAME@sha256:… or BASE=docker-archive:FILE, or leave the image out with IMAGE=no"
        )
    return Base(image_ids[-1], reference, podman.run("image", "inspect", "--format={{.Digest}}", image_ids[-1]))


def full_name(reference: str) -> str:
    """`debian:trixie-slim` -> `docker.io/library/debian:trixie-slim`: without the short names that this machine may define."""
    first, slash, _ = reference.partition("/")
    if reference.startswith(_ARCHIVES) or (slash and ("." in first or ":" in first or first == "localhost")):
        return reference
    return f"docker.io/{reference}" if slash else f"docker.io/library/{reference}"


def _default(root: Path) -> str:
    (found,) = re.findall(r"^ARG BASE=(\S+)$", (root / DOCKERFILE).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return str(found)


class Builder(NamedTuple):
    """Builds images on a base. architecture: Debian's name of another machine's, which needs its emulator; "" for this one's."""

    podman: Podman
    base: Base
    architecture: str = ""

    def archive(self, copy: Path, folder: Path, version: str, revision: str, epoch: int) -> Path:
        """Builds from a copy of the tree; writes `gpu-stall-exporter-0.1.0-image-amd64.tar.gz`. Raises NotPossible."""
        name = f"{NAME}:{version}"
        with tempfile.TemporaryDirectory(prefix="release-image-") as workshop:
            secrets = [f"--secret=id={one},src={path}" for one, path in pip_secrets(Path(workshop)).items()]
            self.podman.run(
                *("build", "--quiet", "--no-cache", "--layers=false", "--pull=never", "--format=docker"),
                *("--isolation=chroot", "--network=host", f"--timestamp={epoch}"),
                *([f"--arch={self.architecture}"] if self.architecture else []),
                *(f"--build-arg=BASE={self.base.image_id}", f"--build-arg=VERSION={version}"),
                *(f"--build-arg=REVISION={revision}", f"--label={_LABEL}.base.digest={self.base.digest}"),
                *(f"--file={copy / DOCKERFILE}", f"--tag={name}"),
                *secrets,
                copy,
            )
            machine = self.podman.run("image", "inspect", "--format={{.Architecture}}", name)
            saved = Path(workshop, "image.tar")
            self.podman.run("save", "--quiet", "--format=docker-archive", f"--output={saved}", name)
            made = folder / f"gpu-stall-exporter-{version}-image-{machine}.tar.gz"
            repack(saved, made, epoch)
        return made


def repack(saved: Path, packed: Path, epoch: int) -> None:
    """Podman's archive without what differs between builds: the id and the host name of the container that it built in."""
    with (
        tarfile.open(saved) as given,
        packed.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as written,
    ):
        (manifest,) = json.load(_member(given, "manifest.json"))
        config = json.load(_member(given, manifest["Config"]))
        for key in ("container", "container_config"):
            config.pop(key, None)
        config["config"].pop("Hostname", None)
        text = json.dumps(config).encode()
        manifest["Config"] = f"{hashlib.sha256(text).hexdigest()}.json"  # its digest is the id of the image
        for name in manifest["Layers"]:
            _add(written, name, given.getmember(name).size, _member(given, name))
        _add(written, manifest["Config"], len(text), io.BytesIO(text))
        listed = json.dumps([manifest]).encode()
        _add(written, "manifest.json", len(listed), io.BytesIO(listed))


def _add(archive: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, content)


class Content(NamedTuple):
    """labels: of the image. files: path and content of each regular file that the Dockerfile adds, to be read in turn."""

    labels: dict[str, str]
    files: Iterator[tuple[str, IO[bytes]]]


@contextmanager
def opened(path: Path) -> Iterator[Content]:
    """An archive of `archive()`, in which the last layer is what the Dockerfile adds."""
    with tarfile.open(path) as outer:
        (manifest,) = json.load(_member(outer, "manifest.json"))
        config = json.load(_member(outer, manifest["Config"]))
        with tarfile.open(fileobj=_member(outer, manifest["Layers"][-1])) as layer:
            yield Content(config["config"]["Labels"], _files(layer))


def _files(layer: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for one in layer:
        if one.isfile():
            yield one.name.removeprefix("./"), _member(layer, one)


def _member(archive: tarfile.TarFile, member: str | tarfile.TarInfo) -> IO[bytes]:
    found = archive.extractfile(member)
    if found is None:
        raise NotPossible(f"{member} of the image archive is not a file")
    return found


def debian_packages(path: Path) -> list[DebianPackage]:
    """The packages of Debian in an image archive, by name: those of the base as well."""
    with opened(path) as found:
        for name, file in found.files:
            if name == "var/lib/dpkg/status":
                return sorted(_installed(file.read().decode()))
    raise NotPossible(f"{path.name} has no list of packages")


def _installed(status: str) -> Iterator[DebianPackage]:
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.*)$", paragraph, flags=re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            yield DebianPackage(fields["Package"], fields["Version"], fields["Architecture"])
