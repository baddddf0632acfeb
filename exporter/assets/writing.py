"""The files that come with the program -> a folder of the user's.

In: a wheel holds them below its package, a source tree at its root. Out: the same paths below the user's folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from exporter.assets import documents, runbook
from exporter.assets.patterns import names
from exporter.errors import BadInput, ExporterError
from exporter.files import content

PACKAGED: Final = Path(__file__).parent / "files"
"""Made by the build of a wheel."""

SOURCE_TREE: Final = Path(__file__).parents[2]
_FILE_BYTES_MAX: Final = 16 << 20


class Assets(NamedTuple):
    """names: paths below the root, sorted. runbook_url: the runbook that alerts and boards link to; "" for the project's."""

    root: Path
    names: Sequence[str]
    runbook_url: str = ""

    @classmethod
    def of_installation(cls, runbook_url: str = "") -> Assets:
        """Those of the wheel, or of the source tree that the program runs from. Raises ExporterError if there are none."""
        if PACKAGED.is_dir():
            paths = (path for path in PACKAGED.rglob("*") if path.is_file())
            found = cls(PACKAGED, sorted(path.relative_to(PACKAGED).as_posix() for path in paths), runbook_url)
        else:
            found = cls(SOURCE_TREE, names(SOURCE_TREE), runbook_url)
        if not found.names:
            raise ExporterError("this installation holds no rules and boards", remedy="install the wheel of a release")
        return found

    def write(self, folder: Path, *, replaces: bool) -> int:
        """The number of files that were new or changed. Raises BadInput.

        Before anything is written it is known that no file of the user's is lost: a different one is replaced only if asked for.
        """
        changed = [name for name in self.names if not self._is_equal(name, folder / name)]
        existing = [name for name in changed if os.path.lexists(folder / name)]
        if existing and not replaces:
            more = f" and {len(existing) - 1} more files exist" if len(existing) > 1 else " exists"
            raise BadInput(
                f"{folder / existing[0]}{more} with other content: nothing was written",
                remedy="choose another folder, or replace them with --force",
            )
        for name in changed:
            path = folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                content.replace(path, [self._content(name)])
            except OSError as error:
                raise BadInput(f"cannot write {path}: {error.strerror}") from None
        return len(changed)

    def _is_equal(self, name: str, path: Path) -> bool:
        """Whether a file is there with the right content; a link is not, wherever it leads."""
        try:
            return content.read(path, _FILE_BYTES_MAX) == self._content(name)
        except OSError:
            return False

    def _content(self, name: str) -> bytes:
        found = documents.linked(name, (self.root / name).read_bytes(), self.names)
        return runbook.linked(name, found, self.runbook_url) if self.runbook_url else found
