# SPDX-License-Identifier: Apache-2.0
"""Does the Dockerfile beside this make an image that works? Built without a container engine, and tried: `make image-steps`.

In: the Dockerfile, and the files that .dockerignore lets through. Out: the image's root file system below --output, its size, and
whether `--version`, `check`, `explain`, a scrape and the health check do in it what they should, with the capabilities of a pod
and no others, and nothing writable but its volumes.

Each stage is a folder in which its steps run by chroot. The base image is made by mmdebstrap from the packages of Debian that
the image of that name is made from. pip's configuration on this machine is shown to the steps as the secret `pip`, a package
index and its certificates included; nothing of it stays. Root is needed.

--architecture=arm64 builds for another machine, by an emulator that the kernel starts for its programs (qemu-user-static). Of
that image only `--version` is tried: programs for the kernel are not emulated.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import fcntl
import json
import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.docker import dockerfile
from deploy.docker.dockerfile import Instruction, NotUnderstood, Stage

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WRITABLE = ("tmp", "var/lib")
"""Empty volumes, to which everybody may write, as in the DaemonSet."""
CAPABILITIES = ("bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore")
DOCKER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
SLIM = tuple(f"/usr/share/{what}/*" for what in ("doc", "info", "locale", "man", "groff", "lintian", "linda"))
"""What Debian's images of the kind slim leave out, but for the copyright files."""
CERTIFICATES = "/run/secrets/certificates"
SCRAPED = re.compile(r"^gpustall_cuda_memcpy_bytes_total\{[^}]*\} ([1-9]\S*)$", re.MULTILINE)
MAY_BE_ABSENT = ("NVIDIA driver", "NVML", "libraries", "bcc")
"""What `check` may miss in a container on a machine without a GPU; everything else is there."""

PATIENCE_SECONDS = 60
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


class Image:
    """What a stage has become. root: its file system. The rest: what it says of how it is run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {"PATH": DOCKER_PATH}
        self.folder = "/"
        self.entrypoint: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []
        self.labels: dict[str, str] = {}


class Builder:
    """context: the files of the working tree. secrets: id -> file. output: where stages become folders.

    architecture: "" for this machine's.
    """

    def __init__(self, context: Path, secrets: Mapping[str, Path], output: Path, architecture: str) -> None:
        self._context = context
        self._ignore = (context / ".dockerignore").read_text(encoding="utf-8").splitlines()
        self._secrets = secrets
        self._output = output
        self._architecture = architecture
        self._made: dict[str, Image] = {}

    def image(self, stages: Sequence[Stage]) -> Image:
        """Of the last stage; the others are made before it."""
        for number, stage in enumerate(stages):
            image = Image(self._output / (stage.name or "image"))
            unpack(base_of(stage.base, self._output, self._architecture), image.root)
            self._run_stage(image, stage, f"{number + 1}/{len(stages)}")
            self._made[stage.name] = image
        return image

    def _run_stage(self, image: Image, stage: Stage, which: str) -> None:
        variables: dict[str, str] = {}
        for one in stage.instructions:
            begin = time.monotonic()
            self._do(one, image, variables)
            if one.word in ("RUN", "COPY"):
                said = one.rest if len(one.rest) < 90 else f"{one.rest[:87]}..."
                print(f"[{which}] {time.monotonic() - begin:5.1f} s  {one.word} {said}", flush=True)

    def _do(self, one: Instruction, image: Image, variables: dict[str, str]) -> None:
        known = {**variables, **image.environment}
        match one.word:
            case "ARG":
                name, _, value = one.rest.partition("=")
                variables[name] = value
            case "ENV":
                image.environment |= dict(word.partition("=")[::2] for word in one.words(known))
            case "LABEL":
                image.labels |= dict(word.partition("=")[::2] for word in one.words(known))
            case "WORKDIR":
                image.folder = dockerfile.replaced(one.rest, known)
                inside(image.root, image.folder).mkdir(parents=True, exist_ok=True)
            case "RUN":
                self._run(one, image, variables)
            case "COPY":
                self._copy(one, image, one.words(known))
            case "ENTRYPOINT":
                image.entrypoint, image.command = one.strings(), []
            case "CMD":
                image.command = one.strings()
            case "HEALTHCHECK":
                image.health = json.loads(one.rest.removeprefix("CMD "))
            case "USER" if one.rest not in ("root", "0", "0:0"):
                raise NotUnderstood("only root is known here")

    def _run(self, one: Instruction, image: Image, variables: Mapping[str, str]) -> None:
        proxies = {name: os.environ[name] for name in PROXIES if name in os.environ}
        with mounted(image.root), self._shown(one, image.root):
            subprocess.run(
                ["chroot", image.root, "sh", "-c", f"cd {image.folder} && {one.rest}"],
                env={**proxies, **image.environment, **variables, "HOME": "/root"},
                check=True,
                stdout=subprocess.DEVNULL,
            )

    @contextmanager
    def _shown(self, one: Instruction, root: Path) -> Iterator[None]:
        """The secrets that a step asks for; one that is not there is left out, as it is by Docker."""
        shown = [(self._secrets[name], inside(root, at)) for name, at in one.secrets() if name in self._secrets]
        fresh = [bind(secret, target) for secret, target in shown]
        try:
            yield
        finally:
            for (_, target), is_fresh in zip(shown, fresh, strict=True):
                subprocess.run(["umount", target], check=True)
                if is_fresh:
                    target.unlink()

    def _copy(self, one: Instruction, image: Image, words: Sequence[str]) -> None:
        *sources, target = words
        origin = dict(one.flags).get("from")
        to = inside(image.root, os.path.join(image.folder, target))  # noqa: PTH118 - an absolute target wins
        for source in sources:
            if origin is not None:
                copy(inside(self._made[origin].root, source), to, target.endswith("/"), None)
            else:
                copy(self._context / source, to, target.endswith("/"), self._is_context)

    def _is_context(self, path: Path) -> bool:
        return dockerfile.is_let_through(path.relative_to(self._context).as_posix(), self._ignore)


def copy(source: Path, to: Path, is_folder: bool, wanted: Callable[[Path], bool] | None) -> None:
    """As COPY does: of a folder its content, a file by its name or into a folder. wanted: says of a path whether it is copied."""
    if not source.is_dir():
        if wanted and not wanted(source):
            raise NotUnderstood(f".dockerignore keeps {source.name} back")
        target = to / source.name if is_folder or to.is_dir() else to
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        return

    def ignored(folder: str, names: list[str]) -> list[str]:
        if wanted is None:
            return []
        paths = [Path(folder, name) for name in names]
        return [path.name for path in paths if not path.is_dir() and not wanted(path)]

    shutil.copytree(source, to, symlinks=True, dirs_exist_ok=True, ignore=ignored)


def base_of(name: str, output: Path, architecture: str = "") -> Path:
    """An archive of the base image, made once. architecture: "" for this machine's.

    Raises NotUnderstood for another one than a slim image of Debian.
    """
    found = re.fullmatch(r"debian:([a-z]+)-slim", name)
    if not found:
        raise NotUnderstood(f"only debian:SUITE-slim can be made without an engine, not {name}")
    archive = output / f"{found[1]}.tar"
    if not archive.exists():
        begin = time.monotonic()
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in SLIM]
        options.append("--dpkgopt=path-include=/usr/share/doc/*/copyright")
        options += [f"--architectures={architecture}"] if architecture else []
        part = archive.with_suffix(".part.tar")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", *options, found[1], part], check=True)
        part.rename(archive)
        print(f"[base] {time.monotonic() - begin:5.1f} s  {name}, made by mmdebstrap", flush=True)
    return archive


def unpack(archive: Path, root: Path) -> None:
    """Into a fresh folder."""
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
    subprocess.run(["tar", "--extract", "--numeric-owner", "--file", archive, "--directory", root], check=True)
    for name in ("resolv.conf", "hostname", "hosts"):  # an engine mounts its own
        (root / "etc" / name).unlink(missing_ok=True)


def inside(root: Path, path: str) -> Path:
    """Of a path as the image sees it, the path as it is seen here."""
    return root / path.lstrip("/")


def bind(source: Path, target: Path) -> bool:
    """Show a file or folder at another place; returns whether that place had to be made."""
    is_fresh = not target.exists()
    if is_fresh and source.is_dir():
        target.mkdir(parents=True)
    elif is_fresh:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    subprocess.run(["mount", "--bind", source, target], check=True)
    return is_fresh


@contextmanager
def mounted(root: Path, is_read_only: bool = False) -> Iterator[None]:
    """What an engine mounts, and unmounts again: /proc, /sys, devices, names of hosts.

    is_read_only: as a pod with readOnlyRootFilesystem has it, with empty volumes where it writes.
    """
    made: list[Path] = []
    fresh: list[Path] = []

    def mount(target: Path, *how: str | Path) -> None:
        subprocess.run(["mount", *how, target], check=True)
        made.append(target)

    try:
        mount(root, "--bind", root)
        for name in ("resolv.conf", "hosts"):
            if (source := Path("/etc", name).resolve()).exists():
                target = root / "etc" / name
                if bind(source, target):
                    fresh.append(target)
                made.append(target)
        mount(root / "proc", "--rbind", "/proc")
        mount(root / "sys", "--bind", "-o", "ro", "/sys")
        mount(root / "dev", "-t", "tmpfs", "-o", "mode=755", "tmpfs")
        for minor, name in ((3, "null"), (5, "zero"), (7, "full"), (8, "random"), (9, "urandom")):
            os.mknod(root / "dev" / name, stat.S_IFCHR, os.makedev(1, minor))
            (root / "dev" / name).chmod(0o666)
        (root / "dev" / "shm").mkdir(mode=0o1777)
        if is_read_only:
            for name in WRITABLE:
                mount(root / name, "-t", "tmpfs", "-o", "mode=777", "tmpfs")
            subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
        yield
    finally:
        for target in reversed(made):
            subprocess.run(["umount", "--recursive", target], check=True)
        for target in fresh:
            target.unlink()


class Trial:
    """The image as a pod runs it: the five capabilities, no new privileges, a root that cannot be written."""

    def __init__(self, image: Image) -> None:
        self._image = image
        bounding = ",".join(("-all", *(f"+{name}" for name in CAPABILITIES)))
        self._under = ["chroot", str(image.root), "setpriv", f"--bounding-set={bounding}", "--no-new-privs"]

    def said(self, *command: str) -> tuple[int, str]:
        """Exit status and words."""
        done = subprocess.run(
            [*self._under, *command],
            env=self._image.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def complaints(self, is_native: bool) -> Iterator[str]:
        """What does not work, each as a sentence. is_native: whether this machine's kernel can take the image's programs."""
        status, said = self.said(*self._image.entrypoint, "--version")
        print(f"--version: {said.strip()}")
        if status:
            yield f"--version ends with {status}: {said}"
        if not is_native:
            return
        status, said = self.said(*self._image.entrypoint, "check", "--format=json")
        if status:
            yield f"check ends with {status}: {said}"
            return
        for check in json.loads(said)["checks"]:
            print(f"check: {check['name']}: {check['state']}: {check['found']}")
            if check["state"] != "ok" and check["name"] not in MAY_BE_ABSENT:
                yield f"check: {check['name']}: {check['found']}"
        yield from self._complaints_of_a_run()

    def _complaints_of_a_run(self) -> Iterator[str]:
        with tempfile.TemporaryFile("w+") as log:
            run = subprocess.Popen(
                [*self._under, *self._image.entrypoint, *self._image.command],
                env=self._image.environment,
                stdout=log,
                stderr=log,
            )
            try:
                healthy, scraped = self._seen(run)
                explained, words = self.said(*self._image.entrypoint, "explain")
            finally:
                run.terminate()
                status = run.wait(PATIENCE_SECONDS)
            log.seek(0)
            logged = log.read()
        if not healthy:
            yield "the health check fails"
        if not scraped:
            yield "no CUDA call was counted"
        if explained:
            yield f"explain ends with {explained}: {words}"
        if status:
            yield f"run ends with {status}"
        if not (healthy and scraped) or explained or status:
            print(logged)
        else:
            print(f"run: healthy; a scrape has {scraped}; explain and run end with 0")

    def _seen(self, run: subprocess.Popen[bytes]) -> tuple[bool, str]:
        """Whether the health check has come out well, and a sample above zero; waits for both."""
        fetch = (
            "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10478/metrics', timeout=5).read().decode())"
        )
        end = time.monotonic() + PATIENCE_SECONDS
        healthy, scraped = False, ""
        while time.monotonic() < end and run.poll() is None and not (healthy and scraped):
            time.sleep(0.5)
            healthy = self.said(*self._image.health)[0] == 0
            found = SCRAPED.search(self.said("python3", "-c", fetch)[1])
            scraped = found[0] if found else ""
        return healthy, scraped


def pip_configuration(folder: Path) -> dict[str, Path]:
    """This machine's, as the secret `pip`; and the certificates that it names, as another one."""
    said = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    options: dict[str, str] = {}
    secrets: dict[str, Path] = {}
    for name, value in re.findall(r"^[\w:]+\.([\w-]+)=(.*)$", said, flags=re.MULTILINE):
        options[name] = str(ast.literal_eval(value))
    options.pop("find-links", None)  # folders of this machine
    if "cert" in options:
        secrets["certificates"] = Path(options["cert"])
        options["cert"] = CERTIFICATES
    secrets["pip"] = folder / "pip.conf"
    lines = ["[global]", *(f"{name} = {value.strip()}".replace("\n", "\n  ") for name, value in options.items())]
    secrets["pip"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return secrets


def size_bytes(root: Path) -> int:
    """What a file system takes on a disk."""
    said = subprocess.run(
        ["du", "--summarize", "--one-file-system", "--block-size=1", root], capture_output=True, text=True, check=True
    )
    return int(said.stdout.split()[0])


def packed_bytes(root: Path) -> int:
    """What it takes in a registry, as one layer."""
    pack = subprocess.Popen(["tar", "--create", "--directory", root, "."], stdout=subprocess.PIPE)
    gzip = subprocess.Popen(["gzip", "-6"], stdin=pack.stdout, stdout=subprocess.PIPE)
    total = 0
    while gzip.stdout and (chunk := gzip.stdout.read(1 << 20)):
        total += len(chunk)
    if pack.wait() or gzip.wait():
        raise OSError(f"could not pack {root}")
    return total


def leave(namespaces: int) -> None:
    """For namespaces of our own: mounts that nobody else sees and that go when we end, a network with nobody else in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(namespaces):
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)}")
    if namespaces & _CLONE_NEWNS:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if namespaces & _CLONE_NEWNET:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            fcntl.ioctl(one, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the image without a container engine, and try it.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "image", help="where the file systems are made")
    parser.add_argument("--architecture", default="", help="of the image, by Debian's name for it [this machine's]")
    options = parser.parse_args()
    output: Path = options.output.resolve() / options.architecture
    if os.geteuid() or shutil.which("mmdebstrap") is None:
        print("image-steps: needs root, and the package mmdebstrap")
        return 1
    output.mkdir(parents=True, exist_ok=True)
    leave(_CLONE_NEWNS)
    stages = dockerfile.stages((HERE / "Dockerfile").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        image = Builder(ROOT, pip_configuration(Path(folder)), output, options.architecture).image(stages)
    whole, packed = size_bytes(image.root), packed_bytes(image.root)
    print(f"image: {whole / 1e6:.0f} MB, packed {packed / 1e6:.0f} MB")
    leave(_CLONE_NEWNET)
    with mounted(image.root, is_read_only=True):
        complaints = list(Trial(image).complaints(is_native=not options.architecture))
    for one in complaints:
        print(f"image-steps: {one}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
