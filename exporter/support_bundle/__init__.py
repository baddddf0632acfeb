"""What does a bug report need from this machine, and nothing that is nobody's business? Written into one tar.gz.

In: the Config, what `check` has found, this machine. Out: a file with a member for each part (parts.py), every text of it cleaned
(redaction.py), each member and the whole bounded. A part that fails leaves a line in `contents.txt`, and costs nothing else.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from exporter.config import Config
from exporter.errors import BadInput
from exporter.support_bundle import parts, redaction
from exporter.support_bundle.machine import Machine

FOLDER = "gpu-stall-exporter-support"
MEMBER_BYTES_MAX = 1 << 20
TOTAL_BYTES_MAX = 4 << 20
_CUT = "\n… cut here: a member holds at most {} bytes\n"
CONTENTS = (
    "findings, versions of exporter, Python, packages and libbpf; kernel, its configuration and sysctls, security modules,"
    " capabilities, cgroups; the settings in force without secrets; names of environment variables; GPU libraries with build"
    " ids; what a running exporter serves, with names of workloads replaced; log lines of the exporter and of the kernel"
    " about BPF"
)
"""For --help."""

Part = Callable[[], str | Mapping[str, Any] | Sequence[Any]]


class Written(NamedTuple):
    """What was written. failures: a line for each part that could not be had."""

    path: Path
    size_bytes: int
    failures: tuple[str, ...]

    def one_line(self) -> str:
        """Where, how large, and what to do before it is sent."""
        names = ", ".join(line.partition(":")[0] for line in self.failures)
        lacking = f", without {names}" if names else ""
        return (
            f"{self.path}: {self.size_bytes:,} bytes{lacking}; secrets, user names and names of workloads were taken out:"
            " look at it before you send it"
        )


class BundleFile:
    """The file, made before anything is collected: whoever mistypes its name learns so at once. A context manager.

    It is the owner's alone, and gone again if nothing came to be written. Raises BadInput.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_written = False
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise BadInput(f"--support-bundle: {path} exists", remedy="remove it, or choose another name") from None
        except FileNotFoundError:
            raise BadInput(
                f"--support-bundle: there is no directory {path.parent}", remedy="make it, or choose another"
            ) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise BadInput(f"--support-bundle: cannot write {path}: {why}", remedy="choose another place") from None

    def __enter__(self) -> BundleFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        if not self._is_written:
            self._path.unlink(missing_ok=True)

    def write(
        self, config: Config, findings: Sequence[Mapping[str, Any]], version: str, machine: Machine | None = None
    ) -> Written:
        """Collect and write. findings: as `check --format=json` has them."""
        machine = machine or Machine()
        cleaner = redaction.Cleaner(redaction.secrets(config, machine.environment), machine.environment)
        members, failures = _members(parts.parts(config, findings, version, machine), cleaner)
        content = _archive(members)
        try:
            with os.fdopen(os.dup(self._fd), "wb") as file:
                file.write(content)
        except OSError as error:
            raise BadInput(
                f"--support-bundle: cannot write {self._path}: {error.strerror}", remedy="choose another place"
            ) from None
        self._is_written = True
        return Written(self._path, len(content), failures)


def _members(wanted: Mapping[str, Part], cleaner: redaction.Cleaner) -> tuple[dict[str, bytes], tuple[str, ...]]:
    members: dict[str, bytes] = {}
    said, failures = [], []
    left_bytes = TOTAL_BYTES_MAX
    for name, part in wanted.items():
        try:
            content = _text(part(), cleaner)
        except Exception as error:  # whatever it is: a report of a bug must survive the bug
            failures.append(cleaner.text(f"{name}: {type(error).__name__}: {error}".replace("\n", " ")[:500]))
            said.append(failures[-1])
            continue
        bound = min(MEMBER_BYTES_MAX, left_bytes)
        members[name] = _bounded(content.encode("utf-8", "replace"), bound)
        left_bytes -= len(members[name])
        said.append(f"{name}: {len(members[name])} bytes" + (", cut" if len(content.encode()) > bound else ""))
    members["contents.txt"] = ("\n".join(said) + "\n").encode()
    return members, tuple(failures)


def _text(content: str | Mapping[str, Any] | Sequence[Any], cleaner: redaction.Cleaner) -> str:
    """Values are cleaned before they become JSON, which would escape what is looked for."""
    if isinstance(content, str):
        return cleaner.text(content)
    return json.dumps(cleaner.value(content), indent=2, ensure_ascii=False) + "\n"


def _bounded(content: bytes, bytes_max: int) -> bytes:
    if len(content) <= bytes_max:
        return content
    note = _CUT.format(bytes_max).encode()
    return (content[: max(bytes_max - len(note), 0)].rpartition(b"\n")[0] + note)[:bytes_max]


def _archive(members: Mapping[str, bytes]) -> bytes:
    """Nobody's: without the name or number of a user."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size, member.mtime, member.mode = len(content), int(time.time()), 0o600
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
