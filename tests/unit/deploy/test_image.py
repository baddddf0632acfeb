"""release.image: names of base images, and what an archive holds. `make image-steps` builds a real one."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.release.agreement import Disagreement, check_image
from deploy.release.image import DebianPackage, debian_packages, full_name, opened, repack

PACKAGE = "opt/gpu-stall-exporter/lib/python3.13/site-packages/exporter"
STATUS = """\
Package: zlib1g
Status: install ok installed
Architecture: amd64
Version: 1:1.3

Package: libbpf1
Status: install ok installed
Architecture: amd64
Version: 1:1.5.0-3
Description: a library
 of the kernel

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


def tar(path: Path, members: Mapping[str, bytes]) -> None:
    """A plain or packed archive."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with one BPF program and one file that comes with the exporter."""
    for name in ("bpf/cuda.bpf.c", "docs/web.md"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).touch()
    return tmp_path / "tree"


def image(folder: Path, **changed: bytes | None) -> Path:
    """An archive as Podman saves it: the layer of the base, then that of the Dockerfile."""
    files: dict[str, bytes] = {
        "objects": b"object",
        "page": b"page",
        "status": STATUS.encode(),
        **{name: content for name, content in changed.items() if content is not None},
    }
    paths = {
        "objects": f"{PACKAGE}/kernel/objects/cuda.bpf.o",
        "page": f"{PACKAGE}/assets/files/docs/web.md",
        "status": "var/lib/dpkg/status",
        "secret": "root/.config/pip/pip.conf",
    }
    absent = {name for name, content in changed.items() if content is None}
    tar(folder / "base.tar", {"var/lib/dpkg/status": b"", f"{PACKAGE}/of-the-base": b""})
    tar(folder / "top.tar", {paths[name]: content for name, content in files.items() if name not in absent})
    labels = {"org.opencontainers.image.version": "0.1.0", "org.opencontainers.image.revision": "abc"}
    made = folder / "image.tar.gz"
    tar(
        made,
        {
            "a.tar": (folder / "base.tar").read_bytes(),
            "b.tar": (folder / "top.tar").read_bytes(),
            "c.json": json.dumps({"config": {"Labels": labels}}).encode(),
            "manifest.json": json.dumps([{"Config": "c.json", "Layers": ["a.tar", "b.tar"]}]).encode(),
        },
    )
    return made


class TestNames:
    @pytest.mark.parametrize(
        ("reference", "name"),
        [
            ("debian:trixie-slim", "docker.io/library/debian:trixie-slim"),
            ("prom/prometheus:v3", "docker.io/prom/prometheus:v3"),
            ("registry.example.com/debian@sha256:ab", "registry.example.com/debian@sha256:ab"),
            ("registry:5000/debian", "registry:5000/debian"),
            ("localhost/debian", "localhost/debian"),
            ("docker-archive:/tmp/base.tar", "docker-archive:/tmp/base.tar"),
            ("oci-archive:base.tar", "oci-archive:base.tar"),
        ],
    )
    def test_short_name_is_that_of_docker(self, reference: str, name: str) -> None:
        """Podman would look it up in the settings of the machine."""
        assert full_name(reference) == name


class TestArchive:
    def test_files_are_those_that_the_dockerfile_adds(self, tmp_path: Path) -> None:
        """The last layer; the base is the other ones."""
        with opened(image(tmp_path)) as found:
            files = {name: file.read() for name, file in found.files}

        assert files == {
            f"{PACKAGE}/kernel/objects/cuda.bpf.o": b"object",
            f"{PACKAGE}/assets/files/docs/web.md": b"page",
            "var/lib/dpkg/status": STATUS.encode(),
        }
        assert found.labels["org.opencontainers.image.version"] == "0.1.0"

    def test_packages_of_debian_are_those_that_are_installed(self, tmp_path: Path) -> None:
        """By name, with their epochs."""
        assert debian_packages(image(tmp_path)) == [
            DebianPackage("libbpf1", "1:1.5.0-3", "amd64"),
            DebianPackage("zlib1g", "1:1.3", "amd64"),
        ]


class TestRepack:
    def test_container_that_it_was_built_in_leaves_no_trace(self, tmp_path: Path) -> None:
        """Its id and its host name are random; layers, labels and names stay."""
        made = []
        for number in ("1", "2"):
            config = {"Hostname": f"random-{number}", "Labels": {"a": "b"}, "Cmd": ["run"]}
            whole = {"container": number, "container_config": config, "config": config, "os": "linux"}
            manifest = {"Config": f"{number}.json", "Layers": ["a.tar"], "RepoTags": ["name:1"]}
            tar(
                tmp_path / "saved.tar",
                {
                    "a.tar": b"layer",
                    f"{number}.json": json.dumps(whole).encode(),
                    "manifest.json": json.dumps([manifest]).encode(),
                },
            )
            made.append(tmp_path / f"{number}.tar.gz")
            repack(tmp_path / "saved.tar", made[-1], 1_700_000_000)
        with tarfile.open(made[0]) as archive:
            contents = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
        (manifest,) = json.loads(contents.pop("manifest.json"))

        assert made[0].read_bytes() == made[1].read_bytes()
        assert contents.pop("a.tar") == b"layer"
        assert manifest == {"Config": manifest["Config"], "Layers": ["a.tar"], "RepoTags": ["name:1"]}
        assert json.loads(contents[manifest["Config"]]) == {
            "config": {"Labels": {"a": "b"}, "Cmd": ["run"]},
            "os": "linux",
        }


class TestAgreement:
    def test_whole_image_of_the_version_passes(self, root: Path, tmp_path: Path) -> None:
        check_image(root, "0.1.0", "abc", image(tmp_path))

    @pytest.mark.parametrize(
        ("changed", "problem"),
        [
            ({"objects": None}, "exporter/kernel/objects/cuda.bpf.o missing"),
            ({"page": None}, "docs/web.md missing"),
            ({"page": b"see /home/someone/tree/x"}, "web.md contains the path /home/someone/tree/x"),
            ({"secret": b"password"}, "root/.config/pip/pip.conf does not belong there"),
        ],
    )
    def test_what_is_missing_or_too_much_is_named(
        self, root: Path, tmp_path: Path, changed: dict[str, bytes | None], problem: str
    ) -> None:
        """A secret of the build must not be in a layer."""
        with pytest.raises(Disagreement, match=problem):
            check_image(root, "0.1.0", "abc", image(tmp_path, **changed))

    def test_labels_are_those_of_the_release(self, root: Path, tmp_path: Path) -> None:
        with pytest.raises(Disagreement, match=r"its version is 0\.1\.0, not 0\.2\.0; its revision is abc, not def"):
            check_image(root, "0.2.0", "def", image(tmp_path))
