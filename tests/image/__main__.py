"""Builds the image archive of a release with Podman, and tries it with the rights of the DaemonSet's pod.

The base image is made by mmdebstrap from Debian's packages, so that no registry is needed. The archive is built twice and must
be the same, byte for byte. It is loaded into another storage; there `--version`, `check`, `explain`, a scrape and the health
check must work, on the stand-in training job of this machine. Needs root.

--architecture=arm64 builds for another machine under emulation (packages qemu-user-static and binfmt-support). Only
`--version` is tried then, since the emulator runs no BPF programs.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import gpustall_standin as standin
from deploy.release import image
from deploy.release.podman import Podman
from exporter import __version__

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "image"
IMAGE = f"{image.NAME}:{__version__}"
RELEASE_PYTHON = ROOT / "build" / "release-venv" / "bin" / "python"
BASE = "debian:trixie-slim"
CAPABILITIES = ("BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "LEASE")
HISTORY_GROUP = 4
"""adm of Debian."""
FLAGS = ("--cgroup-manager=cgroupfs", "--runtime=runc")
MAY_BE_ABSENT = ("tracefs", "NVIDIA driver", "NVML", "libraries", "bcc", "push")
"""Checks that need not be ok in a container on a machine without a GPU."""
SCRAPED = re.compile(r"^gpustall_cuda_memcpy_bytes_total\{[^}]*\} ([1-9]\S*)$", re.MULTILINE)
NO_JOBS = '"workloads":0,'
ASK = (
    "import urllib.request as u;"
    " print(u.urlopen('http://127.0.0.1:10479/api/v1/tools/explain', b'{}', timeout=20).read().decode())"
)
FETCH = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10478/metrics', timeout=5).read().decode())"
PATIENCE_SECONDS = 60
# What Debian's slim images leave out; they keep the copyright files.
_SLIM = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man", "groff", "lintian")]


def pod_flags(state: str = "--tmpfs=/var/lib/gpu-stall-exporter") -> list[str]:
    """Rights of the DaemonSet's pod: six capabilities, read-only root, no new privileges, the host's process ids."""
    flags = ["--network=none", "--pid=host", "--read-only", "--tmpfs=/tmp", state, f"--group-add={HISTORY_GROUP}"]
    flags += ["--cap-drop=ALL", *(f"--cap-add={name}" for name in CAPABILITIES), "--security-opt=no-new-privileges"]
    # Podman 4.3's own profile allows bpf(2) only with CAP_SYS_ADMIN.
    flags += [f"--security-opt=seccomp={ROOT}/deploy/security/seccomp.json", "--security-opt=apparmor=unconfined"]
    # Low limits: Podman's defaults are above those of this process, and without CAP_SYS_RESOURCE runc cannot raise them.
    return [*flags, "--ulimit=nofile=8192:8192", "--ulimit=nproc=8192:8192"]


def serve_flags(volume: str) -> list[str]:
    """Rights of the pod of `serve`: a user without capabilities, who may only read the history."""
    flags = ["--network=none", "--read-only", "--tmpfs=/tmp", f"--volume={volume}:/var/lib/gpu-stall-exporter:ro"]
    flags += ["--user=65532:65532", f"--group-add={HISTORY_GROUP}", "--cap-drop=ALL"]
    return [*flags, "--security-opt=no-new-privileges", "--ulimit=nofile=8192:8192", "--ulimit=nproc=8192:8192"]


def make_base(podman: Podman, output: Path, architecture: str) -> Path:
    """An archive of a base image like Debian's slim one, made once."""
    base, suite = output / "base.tar", output / "trixie.tar"
    if not base.exists():
        options = [*_SLIM, "--dpkgopt=path-include=/usr/share/doc/*/copyright", "--variant=minbase", "--quiet"]
        options += [f"--architectures={architecture}"] if architecture else []
        subprocess.run(["mmdebstrap", *options, "trixie", suite], check=True)
        platform = [f"--arch={architecture}"] if architecture else []
        podman.run("import", "--quiet", *platform, suite, f"localhost/{BASE}")
        suite.unlink()
        unfinished = base.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        podman.run("save", "--quiet", "--format=docker-archive", f"--output={unfinished}", f"localhost/{BASE}")
        unfinished.rename(base)
    return base


def releases(base: Path, folder: Path, architecture: str, *, twice: bool) -> list[Path]:
    """Folders with a release of this tree; twice: made two times."""
    made = []
    for name in ("one", "another-with-a-longer-name")[: 1 + twice]:
        made.append(folder / name)
        shutil.rmtree(made[-1], ignore_errors=True)
        command = [RELEASE_PYTHON, "-m", "deploy.release", made[-1], "--allow-dirty", f"--base=docker-archive:{base}"]
        begin = time.monotonic()
        subprocess.run([*command, f"--image-architecture={architecture}"], check=True, cwd=ROOT)
        print(f"a release in {time.monotonic() - begin:.0f} s", flush=True)
    return made


def image_of(release: Path) -> Path:
    (found,) = release.glob("*-image-*.tar.gz")
    return found


def differences(one: Path, other: Path) -> Iterator[str]:
    """What differs between two releases, a sentence each."""
    names = {path.name for folder in (one, other) for path in folder.iterdir()}
    for name in sorted(names):
        contents = [(folder / name).read_bytes() for folder in (one, other) if (folder / name).exists()]
        if len(contents) != 2 or contents[0] != contents[1]:
            yield f"two releases of the same tree differ in {name}"
    layers = []
    for folder in (one, other):
        with image.opened(image_of(folder)) as found:
            layers.append({name: hashlib.sha256(file.read()).hexdigest() for name, file in found.files})
    for name in sorted(layers[0].keys() | layers[1].keys()):
        if layers[0].get(name) != layers[1].get(name):
            yield f"two images of the same tree differ in {name}"


def load(podman: Podman, archive: Path) -> None:
    """Unpacked, since Podman 4.3 of Debian 12 cannot read a packed one."""
    plain = archive.with_suffix("")
    with gzip.open(archive) as given, plain.open("wb") as written:
        shutil.copyfileobj(given, written)
    print(podman.run("load", "--quiet", f"--input={plain}"))
    plain.unlink()


def problems(podman: Podman, *, is_native: bool) -> Iterator[str]:
    """What does not work of the loaded image, a sentence each."""
    once = ("run", "--rm", "--no-healthcheck", *pod_flags(), IMAGE)
    code, text = podman.attempt(*once, "--version")
    print(f"--version: {text.strip()}")
    if code:
        yield f"--version exits with {code}: {text}"
    if not is_native:
        return
    code, text = podman.attempt(*once, "check", "--format=json")
    if code:
        yield f"check exits with {code}: {text}"
        return
    for check in json.loads(text)["checks"]:
        print(f"check: {check['name']}: {check['state']}: {check['found']}")
        if check["state"] != "ok" and check["name"] not in MAY_BE_ABSENT:
            yield f"check: {check['name']}: {check['found']}"
    with running_job():
        yield from problems_of_a_run(podman)


@contextmanager
def running_job() -> Iterator[None]:
    """The stand-in training job, outside the container."""
    job = subprocess.Popen(
        standin.trainer_command("--quiet"),
        env=standin.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        job.terminate()
        job.wait(PATIENCE_SECONDS)


def problems_of_a_run(podman: Podman) -> Iterator[str]:
    name = f"gpu-stall-exporter-{os.getpid()}"
    state = f"--volume={name}:/var/lib/gpu-stall-exporter"
    detached = ("run", "--detach", "--health-interval=disable")
    code, text = podman.attempt(*detached, f"--name={name}", *pod_flags(state), IMAGE)
    if code:
        yield f"run does not start: {text}"
        return
    try:
        is_healthy, scraped = wait_for_scrape(podman, name)
        code, text = podman.attempt("exec", name, "gpu-stall-exporter", "explain")
        serving = f"{name}-serve"
        how = ("serve", "--web.listen-address=:10479", "--web.insecure-no-tls", "--web.insecure-no-tokens")
        podman.attempt(*detached, f"--name={serving}", *serve_flags(name), IMAGE, *how)
        answered = wait_for_answer(podman, serving)
        _, served = podman.attempt("logs", serving)
        podman.attempt("stop", "--time=20", name)
        _, status = podman.attempt("inspect", "--format={{.State.ExitCode}}", name)
        _, logs = podman.attempt("logs", name)
    finally:
        podman.attempt("rm", "--force", f"{name}-serve")
        podman.attempt("rm", "--force", name)
        podman.attempt("volume", "rm", "--force", name)
    found = []
    if not is_healthy:
        found.append("the health check fails")
    if not scraped:
        found.append("no CUDA call is counted")
    if code:
        found.append(f"explain exits with {code}: {text}")
    if not answered:
        found.append(f"serve does not name the job: {served}")
    if status.strip() != "0":
        found.append(f"run exits with {status.strip()}")
    print(logs if found else f"run: healthy; a scrape has {scraped}; explain and run exit with 0; serve names the job")
    yield from found


def wait_for_scrape(podman: Podman, name: str) -> tuple[bool, str]:
    """Whether the health check succeeds, and a sample above zero, as soon as both are there."""
    end = time.monotonic() + PATIENCE_SECONDS
    is_healthy, scraped = False, ""
    while time.monotonic() < end and not (is_healthy and scraped):
        time.sleep(0.5)
        is_healthy = podman.attempt("healthcheck", "run", name)[0] == 0
        found = SCRAPED.search(podman.attempt("exec", name, "python3", "-c", FETCH)[1])
        scraped = found[0] if found else ""
    return is_healthy, scraped


def wait_for_answer(podman: Podman, name: str) -> bool:
    """Whether `serve` finds the job in the history in time."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        code, text = podman.attempt("exec", name, "python3", "-c", ASK)
        if code == 0 and NO_JOBS not in text:
            return True
        time.sleep(0.5)
    return False


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make image-steps", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder for Podman's storage [build/image]")
    parser.add_argument("--architecture", default="", help="Debian's name of the image's architecture [this machine's]")
    parser.add_argument("--once", action="store_true", help="build once, and compare nothing")
    options = parser.parse_args(argv)
    missing = [name for name in ("podman", "runc", "mmdebstrap") if shutil.which(name) is None]
    if os.geteuid() or missing:
        print(f"make image-steps: needs root{' and ' + ', '.join(missing) if missing else ''}", file=sys.stderr)
        return 1
    output: Path = options.output.resolve() / (options.architecture or "native")
    output.mkdir(parents=True, exist_ok=True)
    base = make_base(Podman(output / "base", *FLAGS), output, options.architecture)
    made = releases(base, output, options.architecture, twice=not options.once)
    found = [] if options.once else list(differences(*made))
    podman = Podman(output / "loaded", *FLAGS, patience_seconds=PATIENCE_SECONDS)
    load(podman, image_of(made[0]))
    found += problems(podman, is_native=not options.architecture)
    _, size = podman.attempt("image", "inspect", "--format={{.Size}}", IMAGE)
    print(f"image: {int(size) / 1e6:.0f} MB, packed {image_of(made[0]).stat().st_size / 1e6:.0f} MB")
    podman.remove_images()
    for one in found:
        print(f"make image-steps: {one}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
