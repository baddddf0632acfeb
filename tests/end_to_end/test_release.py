"""`make release`: the same bytes wherever it is made, and the wheels work without this tree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import zipfile
from contextlib import ExitStack
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter import __version__
from exporter.assets.patterns import names
from exporter.kernel.loader import SUBJECTS
from tests.support.requirements import ROOT, need_command

PATIENCE_SECONDS = 900  # two releases at once, beside other work
pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(PATIENCE_SECONDS + 300), pytest.mark.acceptance]
PYTHON = ROOT / "build" / "release-venv" / "bin" / "python"
NAMES = {
    f"gpu_stall_exporter-{__version__}.tar.gz",
    f"gpu-stall-exporter-{__version__}.cdx.json",
    f"gpu-stall-exporter-{__version__}.tgz",
    "SHA256SUMS",
}
MACHINES = {"x86_64": 62, "aarch64": 183}
"""Architectures, and their numbers in an ELF header."""
ZIP_TICK_SECONDS = 2.1  # the step of a ZIP file's clock


def wheel_of(folder: Path, distribution: str, machine: str) -> Path:
    (wheel,) = folder.glob(f"{distribution}-*{machine}.whl")
    return wheel


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two, made in different folders, the second one started later."""
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON.relative_to(ROOT)} is missing: `make release` makes it")
    need_command("clang", "clang")
    need_command("llvm-strip", "llvm")
    if os.uname().machine == "x86_64":
        need_command("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    made, running = [], []
    with ExitStack() as stack:
        for name in ("one", "another-with-a-longer-name"):
            workshop, folder = tmp_path_factory.mktemp(f"workshop-{name}"), tmp_path_factory.mktemp(name)
            command = [PYTHON, "-m", "deploy.release", folder, "--allow-dirty", "--without-image"]
            environment = {**os.environ, "TMPDIR": str(workshop)}
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
            running.append(stack.enter_context(process))
            stack.callback(process.kill)
            made.append(folder)
            time.sleep(ZIP_TICK_SECONDS)
        for process in running:
            _, errors = process.communicate(timeout=PATIENCE_SECONDS)
            assert (process.returncode, errors) == (0, "")
    return made[0], made[1]


@pytest.fixture(scope="module")
def installed(releases: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, from both wheels of this machine."""
    return environment(tmp_path_factory.mktemp("installed"), *releases[0].glob(f"*{os.uname().machine}.whl"))


def environment(folder: Path, *wheels: Path) -> Path:
    """The program in a fresh virtual environment, which borrows the dependencies of this one; not its editable packages."""
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-compile", "--root-user-action=ignore"]
    subprocess.run([*pip, *offline, *wheels], check=True, timeout=60)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "gpu-stall-exporter"


def installation_of(document: str) -> str:
    """The commands by which a document has the service installed."""
    text = (ROOT / document).read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(python3 -m venv [^`]*)^```", text, flags=re.M)
    return str(block)


def output_of(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """A finished program that ran outside this tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/", env=environment, check=False)


class TestBytes:
    """The files of a release."""

    def test_two_releases_are_equal(self, releases: tuple[Path, Path]) -> None:
        """Every file, byte for byte."""
        one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in releases)

        assert {name for name in one if not name.endswith(".whl")} == NAMES
        assert len(one) == 8
        assert {name for name in one if one[name] != other.get(name)} == set()

    def test_checksums_are_right(self, releases: tuple[Path, Path]) -> None:
        """By sha256sum itself."""
        done = subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=releases[0], timeout=30, check=False
        )

        assert done.returncode == 0
        assert len((releases[0] / "SHA256SUMS").read_text().splitlines()) == 7

    def test_each_architecture_has_objects_of_its_own(self, releases: tuple[Path, Path]) -> None:
        """A program reads arguments from registers, which differ."""
        objects = []
        for machine in ("x86_64", "aarch64"):
            with zipfile.ZipFile(wheel_of(releases[0], "gpu_stall_exporter", machine)) as archive:
                objects.append(archive.read("exporter/kernel/objects/cuda.bpf.o"))

        assert objects[0] != objects[1]

    @pytest.mark.parametrize("machine", MACHINES)
    def test_exporter_ships_without_machine_code(self, releases: tuple[Path, Path], machine: str) -> None:
        """BPF objects are its only compiled files: no library that pretends to be NVIDIA's."""
        with zipfile.ZipFile(wheel_of(releases[0], "gpu_stall_exporter", machine)) as archive:
            names = archive.namelist()
            compiled = {name for name in names if archive.read(name)[:4] == b"\x7fELF"}

        assert compiled == {f"exporter/kernel/objects/{path.stem}.o" for path in (ROOT / "bpf").glob("*.bpf.c")}
        assert [name for name in names if re.search(r"libcuda|libnccl|libnvidia|standin", name)] == []

    @pytest.mark.parametrize("machine", MACHINES)
    def test_standin_is_compiled_for_its_architecture(self, releases: tuple[Path, Path], machine: str) -> None:
        """The one that is not this machine's too."""
        with zipfile.ZipFile(wheel_of(releases[0], "gpu_stall_exporter_standin", machine)) as archive:
            headers = {
                name: archive.read(f"gpustall_standin/build/{name}")[:20]
                for name in (*standin.LIBRARIES, *standin.PROGRAMS)
                if not name.endswith(".a")
            }

        assert {header[18] for header in headers.values()} == {MACHINES[machine]}

    def test_sources_are_whole(self, releases: tuple[Path, Path]) -> None:
        """The objects come with their sources and the way to build them."""
        with tarfile.open(releases[0] / f"gpu_stall_exporter-{__version__}.tar.gz") as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        tracked = subprocess.run(
            ["git", "ls-files", "bpf", "exporter", "tests"], cwd=ROOT, capture_output=True, text=True, check=True
        )

        assert {name for name in tracked.stdout.splitlines() if name not in names and (ROOT / name).exists()} == set()

    def test_chart_is_laid_out_as_helm_does(self, releases: tuple[Path, Path]) -> None:
        """One folder with the name of the chart; values of the chart's own tests are left out."""
        with tarfile.open(releases[0] / f"gpu-stall-exporter-{__version__}.tgz") as archive:
            names = archive.getnames()
            chart = archive.extractfile("gpu-stall-exporter/Chart.yaml")
            assert chart is not None
            text = chart.read().decode()

        assert names[0] == "gpu-stall-exporter/Chart.yaml"
        assert {"gpu-stall-exporter/values.yaml", "gpu-stall-exporter/templates/daemon-set.yaml"} <= set(names)
        assert {name.partition("/")[0] for name in names} == {"gpu-stall-exporter"}
        assert [name for name in names if "/ci/" in name] == []
        assert f"\nversion: {__version__}\n" in text

    def test_bill_of_materials_is_complete(self, releases: tuple[Path, Path]) -> None:
        """The exporter, its dependencies, libbpf, the compilers. CycloneDX's library has checked the schema."""
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

    def test_without_podman_everything_else_is_made(self, tmp_path: Path) -> None:
        """`make release` installs it, which fails without a network. The last lines say what is missing, and why."""
        done = self._without_image(tmp_path, "--before-image=false")

        assert done.returncode == 1
        assert done.stderr == (
            "make release: the release is incomplete: no container image was made: `false` failed; install what it names,"
            " or leave the image out with IMAGE=no\n"
            f"make release: 8 other files are in {tmp_path}/dist; SHA256SUMS and the bill of materials list only these\n"
        )
        assert {path.name for path in (tmp_path / "dist").iterdir()} >= NAMES

    def test_base_that_cannot_be_pulled_costs_the_image_alone(self, tmp_path: Path) -> None:
        """With the reason and what to do."""
        need_command("podman", "podman")
        done = self._without_image(tmp_path, f"--base=docker-archive:{tmp_path}/x.tar")

        assert done.returncode == 1
        assert (
            f"no container image was made: cannot pull the base image docker-archive:{tmp_path}/x.tar: Error: "
            in done.stderr
        )
        assert "; name another one with BASE=" in done.stderr
        assert {path.name for path in (tmp_path / "dist").iterdir()} >= NAMES

    @staticmethod
    def _without_image(folder: Path, flag: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYTHON, "-m", "deploy.release", folder / "dist", "--allow-dirty", flag],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def test_folder_that_is_not_empty_is_refused(self, releases: tuple[Path, Path]) -> None:
        done = subprocess.run(
            [PYTHON, "-m", "deploy.release", releases[0]], cwd=ROOT, capture_output=True, text=True, check=False
        )

        assert (done.returncode, done.stderr) == (1, f"make release: {releases[0]} is not empty\n")


class TestInstalled:
    """The wheels, installed."""

    def test_version_is_that_of_the_tree(self, installed: Path) -> None:
        assert output_of(installed, "--version").stdout == f"gpu-stall-exporter {__version__}\n"

    def test_modules_are_the_installed_ones(self, installed: Path) -> None:
        """Otherwise the other tests of this class would test this tree."""
        done = output_of(installed.with_name("python"), "-c", "import exporter; print(exporter.__file__)")

        assert done.stdout.startswith(str(installed.parents[1]))

    def test_check_finds_every_object(self, installed: Path) -> None:
        done = output_of(installed, "check", "--format=json", "--web.listen-address=127.0.0.1:0")
        found = {row["name"]: (row["state"], row["found"]) for row in json.loads(done.stdout)["checks"]}

        assert done.stderr == ""
        assert found["BPF objects"] == ("ok", ", ".join(f"{subject}.bpf.o" for subject in SUBJECTS))
        assert found["BPF programs"][0] == "ok" or os.geteuid() != 0

    def test_demo_replays(self, installed: Path) -> None:
        """The recordings are in the exporter's wheel."""
        done = output_of(installed, "demo", "hang", "--replay")

        assert (done.returncode, done.stderr) == (0, "")
        assert "chain opened: nccl_hang" in done.stdout

    def test_assets_are_those_of_the_tree(self, installed: Path, tmp_path: Path) -> None:
        """Rules, boards, manifests and units are in the exporter's wheel, byte for byte."""
        done = output_of(installed, "assets", f"--output={tmp_path}")
        written = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*") if path.is_file()}

        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(written) == names(ROOT)
        changed = [name for name, path in written.items() if path.read_bytes() != (ROOT / name).read_bytes()]
        assert [name for name in changed if not name.endswith(".md")] == []  # links to sources lead to the project

    def test_documents_install_the_service_alike(self) -> None:
        assert installation_of("docs/deployment.md") == installation_of("README.md")

    def test_service_is_installed_as_documented(self, releases: tuple[Path, Path], tmp_path: Path) -> None:
        """Every line but the last is run, in folders of this test; the last one needs a systemd (test_systemd.py has one)."""
        *lines, last = installation_of("README.md").splitlines()
        for folder in ("opt", "usr/local/bin", "etc/systemd/system"):
            (tmp_path / folder).mkdir(parents=True)
        script = re.sub(r"(?<![\w.])/(?=(?:opt|usr/local|etc)/)", f"{tmp_path}/", "\n".join(lines))
        (tmp_path / "dist").symlink_to(releases[0])
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=tmp_path,
            env={
                "PATH": f"{tmp_path}/usr/local/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PIP_NO_COMPILE": "1",
                "PIP_NO_DEPS": "1",
                "PIP_NO_INDEX": "1",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                "PIP_ROOT_USER_ACTION": "ignore",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert last == "systemctl enable --now gpu-stall-exporter"
        unit = (tmp_path / "etc/systemd/system/gpu-stall-exporter.service").read_text(encoding="utf-8")
        assert "\nExecStart=/usr/local/bin/gpu-stall-exporter run $OPTIONS\n" in unit
        assert output_of(tmp_path / "usr/local/bin/gpu-stall-exporter", "--version").stdout.endswith(
            f" {__version__}\n"
        )

    def test_standin_runs_programs(self, installed: Path) -> None:
        """Those of its wheel are executable."""
        command = installed.with_name("gpu-stall-exporter-standin")
        done = output_of(command, "run", "calls", "cudaEventRecord:23")

        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout.splitlines()[-1])["calls"]["runtime"]["cudaEventRecord"]["count"] == 23


class TestWithoutStandin:
    """Only the exporter's wheel, as on a production machine."""

    def test_demo_replays_and_says_how_to_install_live_demos(self, releases: tuple[Path, Path], tmp_path: Path) -> None:
        """Without --replay, as root."""
        if os.geteuid() != 0:
            pytest.skip("needs root: without it a demo is always replayed")
        installed = environment(tmp_path, wheel_of(releases[0], "gpu_stall_exporter", os.uname().machine))
        done = output_of(installed, "demo", "hang")

        assert done.returncode == 0
        assert "live demos are not installed (pip install 'gpu-stall-exporter[demo]')" in done.stdout
        assert "chain opened: nccl_hang" in done.stdout
