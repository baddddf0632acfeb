"""release.images: every image of a released deploy/ is pinned by its digest."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from deploy.release.images import pin, references
from deploy.release.tree import NotPossible

ROOT = Path(__file__).parents[3]
DIGEST = "sha256:" + "0123456789abcdef" * 4
OF_THE_USER = "training:latest"  # the sidecar's example of a job
TEMPLATE = "{{ include"


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """A copy of deploy/."""
    return Path(shutil.copytree(ROOT / "deploy", tmp_path / "deploy"))


def images(deploy: Path) -> list[str]:
    """Every reference to an image in any file."""
    found = []
    for path in deploy.rglob("*"):
        if path.suffix in (".yaml", ".yml") or path.name in ("Dockerfile", "Containerfile"):
            text = path.read_text(encoding="utf-8")
            found += re.findall(r"^ *(?:- )?image: *(\S.*)$", text, flags=re.MULTILINE)
            found += re.findall(r"^ARG BASE=(.*)$", text, flags=re.MULTILINE)
            found += [one for one in re.findall(r"^FROM (\S+)", text, flags=re.MULTILINE) if one != "${BASE}"]
    return [one for one in found if one != OF_THE_USER and not one.startswith(TEMPLATE)]


class TestPin:
    def test_every_image_of_a_release_has_a_digest(self, deploy: Path) -> None:
        """Also one that is added to any file later."""
        pin(deploy, {name: DIGEST for _, name in references(deploy)})

        assert images(deploy)
        assert [
            one for one in images(deploy) if not re.fullmatch(rf"(?:\$\{{\w+:-)?[a-z0-9./_-]+@{DIGEST}\}}?", one)
        ] == []

    def test_chart_has_the_digest(self, deploy: Path) -> None:
        pin(deploy, {name: DIGEST for _, name in references(deploy)})

        assert f'  digest: "{DIGEST}"\n' in (deploy / "helm/gpu-stall-exporter/values.yaml").read_text(encoding="utf-8")

    def test_pinned_images_can_be_pinned_again(self, deploy: Path) -> None:
        """The next release has other digests."""
        pin(deploy, {name: "sha256:" + "f" * 64 for _, name in references(deploy)})
        pin(deploy, {name: DIGEST for _, name in references(deploy)})

        assert all(DIGEST in one for one in images(deploy))

    def test_image_without_a_digest_is_refused(self, deploy: Path) -> None:
        before = images(deploy)

        with pytest.raises(NotPossible, match="no digest given for debian, grafana/grafana, prom/alertmanager"):
            pin(deploy, {"gpu-stall-exporter": DIGEST, "prom/prometheus": DIGEST})
        assert images(deploy) == before

    @pytest.mark.parametrize("digest", ["latest", "sha256:", "sha256:" + "g" * 64, DIGEST + "0", "sha512:" + "0" * 128])
    def test_what_is_no_digest_is_refused(self, deploy: Path, digest: str) -> None:
        with pytest.raises(NotPossible, match="is not a digest"):
            pin(deploy, {"debian": digest})


class TestHashes:
    @pytest.mark.parametrize("name", ["constraints.txt", "build-requirements.txt"])
    def test_every_package_of_the_image_has_a_hash(self, name: str) -> None:
        """pip then refuses any other file with the same name and version."""
        text = (ROOT / "deploy/docker" / name).read_text(encoding="utf-8").replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]

        assert lines
        assert [line for line in lines if not re.fullmatch(r"\S+==\S+( +--hash=sha256:[0-9a-f]{64})+ *", line)] == []

    def test_packages_with_machine_code_have_a_hash_for_each_architecture(self) -> None:
        text = (ROOT / "deploy/docker/constraints.txt").read_text(encoding="utf-8").replace("\\\n", " ")
        hashes = {line.partition("==")[0]: line.count("--hash") for line in text.splitlines() if "==" in line}

        assert {name for name, count in hashes.items() if count == 2} == {
            "bcrypt",
            "cffi",
            "charset-normalizer",
            "cryptography",
            "protobuf",
            "pydantic_core",
            "PyYAML",
            "rpds-py",
        }

    def test_versions_are_those_of_the_bill_of_materials(self) -> None:
        pinned = [
            {line.split()[0] for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if "==" in line}
            for name in ("deploy/docker/constraints.txt", "deploy/release/runtime.txt")
        ]

        assert pinned[0] == pinned[1]

    def test_image_installs_only_what_has_a_hash(self) -> None:
        text = (ROOT / "deploy/docker/Dockerfile").read_text(encoding="utf-8")
        installs = re.findall(r"pip install (.*?)(?: \\)?$", text, flags=re.MULTILINE)

        assert installs
        assert all(
            "--require-hashes" in one or ("--no-deps" in one and "--no-build-isolation" in one) for one in installs
        )
