"""Gets a Debian package without installing it.

In: a package name, or a kernel version. Out: a folder in the user's cache with the wanted files of the package. apt downloads
it and checks it against the signed index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-stall-exporter" / "kernels"


class NotHere(Exception):
    """This machine lacks something; the message names it."""


def kernel_package(version: str) -> str:
    """The newest package of a kernel such as `6.1`; anything else is the name of a package."""
    if not re.fullmatch(r"\d+\.\d+", version):
        return version
    names = _output("apt-cache", "pkgnames", f"linux-image-{version}.").split()
    pattern = re.compile(rf"linux-image-{re.escape(version)}\.(\d+)[-+](?:deb\d+[-+])?(\d+)?.*amd64")
    found = [(name, match) for name in names if (match := pattern.fullmatch(name))]
    plain = [(tuple(int(n or 0) for n in match.groups()), name) for name, match in found if _is_plain(name)]
    if not plain:
        raise NotHere(f"apt knows no package of kernel {version}: Debian's package lists are needed (apt-get update)")
    return max(plain)[1]


def _is_plain(name: str) -> bool:
    return not re.search(r"-(rt|cloud|dbg|unsigned)\b", name)


def unpacked(package: str, keep: Callable[[Path], bool], edition: str = "") -> Path:
    """A folder with the files of a package that `keep` accepts by their paths in it.

    Created once for each version and edition; the edition names the set of files.
    """
    shown = _output("apt-cache", "show", "--no-all-versions", package)
    version = next((line.split()[1] for line in shown.splitlines() if line.startswith("Version:")), None)
    if version is None:
        raise NotHere(f"apt knows no package {package} (apt-get update)")
    folder = CACHE / f"{package}_{version}{edition}"
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        print(f"kernels: downloading {package} {version}", flush=True)
        options = ("-o", "APT::Sandbox::User=root") if os.geteuid() == 0 else ()
        _output("apt-get", "download", "-qq", *options, f"{package}={version}", folder=temporary)
        (archive,) = Path(temporary).glob("*.deb")
        everything, kept = Path(temporary, "all"), Path(temporary, "kept")
        _output("dpkg-deb", "--extract", str(archive), str(everything))
        kept.mkdir()
        for path in everything.rglob("*"):
            inside = path.relative_to(everything)
            if path.is_file() and keep(inside):
                (kept / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, kept / inside)
        try:
            kept.rename(folder)
        except OSError:
            if not folder.exists():  # another run may have been faster
                raise
    return folder


def _output(*command: str, folder: str | None = None) -> str:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise NotHere(f"{command[0]} is not installed: this needs Debian") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().rpartition("\n")[2] or f"exit status {error.returncode}"
        raise NotHere(f"`{' '.join(command)}` failed: {reason}") from error
