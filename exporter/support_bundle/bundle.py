"""The bundle: one tar.gz with a file for each part, every text redacted, each file and the whole of bounded size.

In: the Config, the results of `check`, this machine. Out: a tar.gz. A part that fails leaves a line in `contents.txt`.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from exporter.config import Config
from exporter.errors import BadInput
from exporter.support_bundle.machine import Machine
from exporter.support_bundle.parts import Part, parts
from exporter.support_bundle.redaction import Redactor, secrets

FOLDER = "gpu-stall-exporter-support"
FILE_BYTES_MAX = 1 << 20
TOTAL_BYTES_MAX = 4 << 20
_TRUNCATED = "\n… truncated: a file holds at most {} bytes\n"


class Written(NamedTuple):
    """failures: a line for each part that failed."""

    path: Path
    size_bytes: int
    failures: tuple[str, ...]

    def one_line(self) -> str:
        names = ", ".join(line.partition(":")[0] for line in self.failures)
        without = f", without {names}" if names else ""
        return (
            f"{self.path}: {self.size_bytes:,} bytes{without}; secrets, user names and workload names are removed:"
            " review it before you send it"
        )


class BundleFile:
    """The file, created before anything is collected, so that a wrong path fails at once. A context manager.

    Only the owner may read it. It is removed if nothing was written. Raises BadInput.
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
                f"--support-bundle: no directory {path.parent}", remedy="create it, or choose another"
            ) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise BadInput(f"--support-bundle: cannot write {path}: {why}", remedy="choose another path") from None

    def __enter__(self) -> BundleFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        if not self._is_written:
            self._path.unlink(missing_ok=True)

    def write(
        self, config: Config, checks: Sequence[Mapping[str, Any]], version: str, machine: Machine | None = None
    ) -> Written:
        """checks: as in `check --format=json`."""
        machine = machine or Machine()
        redactor = Redactor(secrets(config, machine.environment), machine.environment)
        files, failures = _files(parts(config, checks, version, machine), redactor)
        content = _archive(files)
        try:
            with os.fdopen(os.dup(self._fd), "wb") as file:
                file.write(content)
        except OSError as error:
            raise BadInput(
                f"--support-bundle: cannot write {self._path}: {error.strerror}", remedy="choose another path"
            ) from None
        self._is_written = True
        return Written(self._path, len(content), failures)


def _files(wanted: Mapping[str, Part], redactor: Redactor) -> tuple[dict[str, bytes], tuple[str, ...]]:
    files: dict[str, bytes] = {}
    contents, failures = [], []
    left_bytes = TOTAL_BYTES_MAX
    for name, part in wanted.items():
        try:
            text = _text(part(), redactor)
        except Exception as error:  # any: the report of a bug must survive the bug
            failures.append(redactor.text(f"{name}: {type(error).__name__}: {error}".replace("\n", " ")[:500]))
            contents.append(failures[-1])
            continue
        limit = min(FILE_BYTES_MAX, left_bytes)
        files[name] = _truncated(text.encode("utf-8", "replace"), limit)
        left_bytes -= len(files[name])
        contents.append(f"{name}: {len(files[name])} bytes" + (", truncated" if len(text.encode()) > limit else ""))
    files["contents.txt"] = ("\n".join(contents) + "\n").encode()
    return files, tuple(failures)


def _text(content: str | Mapping[str, Any] | Sequence[Any], redactor: Redactor) -> str:
    """Values are redacted before they become JSON, which would escape the secrets that are searched for."""
    if isinstance(content, str):
        return redactor.text(content)
    return json.dumps(redactor.value(content), indent=2, ensure_ascii=False) + "\n"


def _truncated(content: bytes, bytes_max: int) -> bytes:
    if len(content) <= bytes_max:
        return content
    note = _TRUNCATED.format(bytes_max).encode()
    return (content[: max(bytes_max - len(note), 0)].rpartition(b"\n")[0] + note)[:bytes_max]


def _archive(files: Mapping[str, bytes]) -> bytes:
    """A tar.gz in which no user's name or number stands."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(f"{FOLDER}/{name}")
            header.size, header.mtime, header.mode = len(content), int(time.time()), 0o600
            archive.addfile(header, io.BytesIO(content))
    return buffer.getvalue()
