"""Builds the image of deploy/docker/Dockerfile with Podman, and tries it with the rights of the DaemonSet's pod.

The base image is made by mmdebstrap from Debian's packages, so that no registry is needed. In the image `--version`, `check`,
`explain`, a scrape and the health check must work, on the stand-in training job of this machine. Needs root.

--architecture=arm64 builds for another machine under emulation (packages qemu-user-static and binfmt-support). Only
`--version` is tried then, since the emulator runs no BPF programs.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import gpustall_standin as standin

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "image"
IMAGE = "localhost/gpu-stall-exporter"
BASE = "debian:trixie-slim"
CAPABILITIES = ("BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "LEASE")
CERTIFICATES = "/run/secrets/certificates"
MAY_BE_ABSENT = ("tracefs", "NVIDIA driver", "NVML", "libraries", "bcc", "push")
"""Checks that need not be ok in a container on a machine without a GPU."""
SCRAPED = re.compile(r"^gpustall_cuda_memcpy_bytes_total\{[^}]*\} ([1-9]\S*)$", re.MULTILINE)
FETCH = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10478/metrics', timeout=5).read().decode())"
PATIENCE_SECONDS = 60
# What Debian's slim images leave out; they keep the copyright files.
_SLIM = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man", "groff", "lintian")]


class Podman:
    """The podman command, with its storage below a folder of this tree."""

    def __init__(self, storage: Path) -> None:
        self._base = ["podman", f"--root={storage}/store", f"--runroot={storage}/run", "--cgroup-manager=cgroupfs"]
        self._base += ["--events-backend=none", "--runtime=runc"]

    def run(self, *arguments: str | Path) -> None:
        """A command that must succeed; its output is shown."""
        subprocess.run([*self._base, *arguments], check=True, cwd=ROOT)

    def output(self, *arguments: str | Path) -> tuple[int, str]:
        """Exit code and output of a command that may fail."""
        done = subprocess.run(
            [*self._base, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        return done.returncode, done.stdout + done.stderr


def pod_flags() -> list[str]:
    """Rights of the DaemonSet's pod: six capabilities, read-only root, no new privileges, the host's process ids."""
    flags = ["--network=none", "--pid=host", "--read-only", "--tmpfs=/tmp", "--tmpfs=/var/lib/gpu-stall-exporter"]
    flags += ["--cap-drop=ALL", *(f"--cap-add={name}" for name in CAPABILITIES), "--security-opt=no-new-privileges"]
    # Podman 4.3's own profile allows bpf(2) only with CAP_SYS_ADMIN.
    flags += [f"--security-opt=seccomp={ROOT}/deploy/security/seccomp.json", "--security-opt=apparmor=unconfined"]
    # Low limits: Podman's defaults are above those of this process, and without CAP_SYS_RESOURCE runc cannot raise them.
    return [*flags, "--ulimit=nofile=8192:8192", "--ulimit=nproc=8192:8192"]


def make_base(podman: Podman, suite_archive: Path, architecture: str) -> str:
    """The name of a base image like Debian's slim one, made once."""
    if not suite_archive.exists():
        unfinished = suite_archive.with_suffix(".part.tar")
        options = [*_SLIM, "--dpkgopt=path-include=/usr/share/doc/*/copyright", "--variant=minbase", "--quiet"]
        options += [f"--architectures={architecture}"] if architecture else []
        subprocess.run(["mmdebstrap", *options, "trixie", unfinished], check=True)
        unfinished.rename(suite_archive)
    podman.run("import", "--quiet", *platform_flags(architecture), suite_archive, f"localhost/{BASE}")
    return f"localhost/{BASE}"


def platform_flags(architecture: str) -> list[str]:
    return [f"--arch={architecture}"] if architecture else []


def build(podman: Podman, base: str, architecture: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        secrets = [f"--secret=id={name},src={path}" for name, path in pip_secrets(Path(folder)).items()]
        podman.run(
            *("build", "--quiet", "--isolation=chroot", "--network=host", "--format=docker"),
            *(f"--build-arg=BASE={base}", *platform_flags(architecture), *secrets),
            *("--file=deploy/docker/Dockerfile", f"--tag={IMAGE}", "."),
        )


def pip_secrets(folder: Path) -> dict[str, Path]:
    """pip's configuration on this machine for the build, and the certificates it names. Neither stays in the image."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    options = {
        name: str(ast.literal_eval(value))
        for name, value in re.findall(r"^[\w:.]*\.([\w-]+)=(.*)$", listed, flags=re.MULTILINE)
    }
    options.pop("find-links", None)  # folders of this machine
    secrets = {"pip": folder / "pip.conf"}
    if "cert" in options:
        secrets["certificates"] = Path(options["cert"])
        options["cert"] = CERTIFICATES
    lines = ["[global]", *(f"{name} = {value.strip()}".replace("\n", "\n  ") for name, value in options.items())]
    secrets["pip"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return secrets


def problems(podman: Podman, *, is_native: bool) -> Iterator[str]:
    """What does not work, a sentence each."""
    once = ("run", "--rm", "--no-healthcheck", *pod_flags(), IMAGE)
    code, text = podman.output(*once, "--version")
    print(f"--version: {text.strip()}")
    if code:
        yield f"--version exits with {code}: {text}"
    if not is_native:
        return
    code, text = podman.output(*once, "check", "--format=json")
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
    code, text = podman.output("run", "--detach", f"--name={name}", "--health-interval=disable", *pod_flags(), IMAGE)
    if code:
        yield f"run does not start: {text}"
        return
    try:
        is_healthy, scraped = wait_for_scrape(podman, name)
        code, text = podman.output("exec", name, "gpu-stall-exporter", "explain")
        podman.output("stop", "--time=20", name)
        _, status = podman.output("inspect", "--format={{.State.ExitCode}}", name)
        _, logs = podman.output("logs", name)
    finally:
        podman.output("rm", "--force", name)
    found = []
    if not is_healthy:
        found.append("the health check fails")
    if not scraped:
        found.append("no CUDA call is counted")
    if code:
        found.append(f"explain exits with {code}: {text}")
    if status.strip() != "0":
        found.append(f"run exits with {status.strip()}")
    print(logs if found else f"run: healthy; a scrape has {scraped}; explain and run exit with 0")
    yield from found


def wait_for_scrape(podman: Podman, name: str) -> tuple[bool, str]:
    """Whether the health check succeeds, and a sample above zero, as soon as both are there."""
    end = time.monotonic() + PATIENCE_SECONDS
    is_healthy, scraped = False, ""
    while time.monotonic() < end and not (is_healthy and scraped):
        time.sleep(0.5)
        is_healthy = podman.output("healthcheck", "run", name)[0] == 0
        found = SCRAPED.search(podman.output("exec", name, "python3", "-c", FETCH)[1])
        scraped = found[0] if found else ""
    return is_healthy, scraped


def packed_bytes(podman: Podman) -> int:
    """The size of the compressed layers, which a registry stores."""
    with tempfile.TemporaryDirectory() as folder:
        podman.output("push", "--quiet", "--compress", IMAGE, f"dir:{folder}/image")
        return sum(path.stat().st_size for path in Path(folder, "image").iterdir())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make image-steps", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder for Podman's storage [build/image]")
    parser.add_argument("--architecture", default="", help="Debian's name of the image's architecture [this machine's]")
    options = parser.parse_args(argv)
    missing = [name for name in ("podman", "runc", "mmdebstrap") if shutil.which(name) is None]
    if os.geteuid() or missing:
        print(f"make image-steps: needs root{' and ' + ', '.join(missing) if missing else ''}", file=sys.stderr)
        return 1
    output: Path = options.output.resolve() / (options.architecture or "native")
    output.mkdir(parents=True, exist_ok=True)
    podman = Podman(output)
    build(podman, make_base(podman, output / "trixie.tar", options.architecture), options.architecture)
    _, size = podman.output("image", "inspect", "--format={{.Size}}", IMAGE)
    print(f"image: {int(size) / 1e6:.0f} MB, packed {packed_bytes(podman) / 1e6:.0f} MB")
    found = list(problems(podman, is_native=not options.architecture))
    for one in found:
        print(f"make image-steps: {one}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
