"""`make release`: the same bytes wherever it is made, and what is installed from it works without this tree."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tarfile
import time
import venv
from pathlib import Path

import pytest

from exporter import __version__
from exporter.kernel.loader import SUBJECTS
from tests.support.requirements import ROOT, need_command

pytestmark = pytest.mark.end_to_end
PYTHON = ROOT / "build" / "release-venv" / "bin" / "python"
NAMES = {
    f"gpu_stall_exporter-{__version__}.tar.gz",
    f"gpu-stall-exporter-{__version__}.cdx.json",
    "SHA256SUMS",
}
ZIP_TICK_SECONDS = 2.1  # the step of a ZIP file's clock


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two, made in different folders, one begun later than the other."""
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON.relative_to(ROOT)} is missing: `make release` makes it")
    need_command("clang", "clang")
    need_command("llvm-strip", "llvm")
    made, running = [], []
    for name in ("one", "another-with-a-longer-name"):
        workshop, folder = tmp_path_factory.mktemp(f"workshop-{name}"), tmp_path_factory.mktemp(name)
        command = [PYTHON, "-m", "deploy.release", folder, "--allow-dirty"]
        running.append(
            subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "TMPDIR": str(workshop)}, stderr=subprocess.PIPE, text=True
            )
        )
        made.append(folder)
        time.sleep(ZIP_TICK_SECONDS)
    for process in running:
        _, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")
    return made[0], made[1]


@pytest.fixture(scope="module")
def installed(releases: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, in an environment of its own. What it needs is lent by this one, which has no other way to our modules."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    (wheel,) = releases[0].glob(f"*{os.uname().machine}.whl")
    pip = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--root-user-action=ignore", wheel], check=True, timeout=60)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "gpu-stall-exporter"


def said(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """What a program says, far from this tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/", env=environment, check=False)


class TestBytes:
    """What is handed out."""

    def test_two_releases_are_equal(self, releases: tuple[Path, Path]) -> None:
        """Byte for byte, each file of them."""
        one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in releases)

        assert {name for name in one if not name.endswith(".whl")} == NAMES
        assert len(one) == 5
        assert {name for name in one if one[name] != other.get(name)} == set()

    def test_checksums_are_right(self, releases: tuple[Path, Path]) -> None:
        """As sha256sum sees it."""
        done = subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=releases[0], timeout=30, check=False
        )

        assert done.returncode == 0
        assert len((releases[0] / "SHA256SUMS").read_text().splitlines()) == 4

    def test_each_architecture_has_objects_of_its_own(self, releases: tuple[Path, Path]) -> None:
        """A program reads registers, which are others there."""
        import zipfile

        objects = []
        for machine in ("x86_64", "aarch64"):
            (wheel,) = releases[0].glob(f"*{machine}.whl")
            with zipfile.ZipFile(wheel) as archive:
                objects.append(archive.read("exporter/kernel/objects/cuda.bpf.o"))

        assert objects[0] != objects[1]

    def test_sources_are_whole(self, releases: tuple[Path, Path]) -> None:
        """Whoever gets the objects gets what they are made from, and how."""
        with tarfile.open(releases[0] / f"gpu_stall_exporter-{__version__}.tar.gz") as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        tracked = subprocess.run(
            ["git", "ls-files", "bpf", "exporter", "tests"], cwd=ROOT, capture_output=True, text=True, check=True
        )

        assert {name for name in tracked.stdout.splitlines() if name not in names and (ROOT / name).exists()} == set()

    def test_bill_names_what_is_in_it(self, releases: tuple[Path, Path]) -> None:
        """Us, every package that is installed with us, libbpf's headers, the compilers. The library has checked the schema."""
        bill = json.loads((releases[0] / f"gpu-stall-exporter-{__version__}.cdx.json").read_text())
        names = {component["name"] for component in bill["components"]}

        assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
        assert bill["metadata"]["component"]["version"] == __version__
        assert {
            "prometheus_client",
            "opentelemetry-sdk",
            "protobuf",
            "bcrypt",
            "h11",
            "libbpf",
            "clang",
            "gcc",
        } <= names
        assert all(component["version"] for component in bill["components"])

    def test_folder_with_something_in_it_is_left_alone(self, releases: tuple[Path, Path]) -> None:
        """One line says so."""
        done = subprocess.run(
            [PYTHON, "-m", "deploy.release", releases[0]], cwd=ROOT, capture_output=True, text=True, check=False
        )

        assert (done.returncode, done.stderr) == (1, f"make release: {releases[0]} is not empty\n")


class TestInstalled:
    """From the wheel, without this tree."""

    def test_it_says_its_version(self, installed: Path) -> None:
        """That of the tree it was made from."""
        assert said(installed, "--version").stdout == f"gpu-stall-exporter {__version__}\n"

    def test_its_modules_are_its_own(self, installed: Path) -> None:
        """So that the tests here say something."""
        done = said(installed.with_name("python"), "-c", "import exporter; print(exporter.__file__)")

        assert done.stdout.startswith(str(installed.parents[1]))

    def test_check_finds_every_object(self, installed: Path) -> None:
        done = said(installed, "check", "--format=json", "--web.listen-address=127.0.0.1:0")
        found = {row["name"]: (row["state"], row["found"]) for row in json.loads(done.stdout)["checks"]}

        assert done.stderr == ""
        assert found["BPF objects"] == ("ok", ", ".join(f"{subject}.bpf.o" for subject in SUBJECTS))
        assert found["BPF programs"][0] == "ok" or os.geteuid() != 0
