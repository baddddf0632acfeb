"""The C sources of the stand-in GPU: no file calls into another one that calls back, directly or through others."""

from __future__ import annotations

import subprocess
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support.standin_gpu import built

FOLDERS = sorted({path.parent.name for path in standin.source_dir().glob("src/*/*.c")})


@cache
def symbols() -> list[tuple[str, str, str, str]]:
    """(folder, file, symbol, kind as nm gives it) of every object."""
    built()
    root = standin.source_dir()
    subprocess.run(["make", "-s", "-C", root], check=True, capture_output=True)
    sources = sorted(path.relative_to(root / "src") for path in root.glob("src/*/*.c"))
    objects = [root / "objects" / source.with_suffix(".o") for source in sources]
    output = subprocess.run(["nm", "-A", "-P", *objects], check=True, capture_output=True, text=True).stdout
    found = []
    for line in output.splitlines():
        path, _, rest = line.partition(": ")
        found.append((Path(path).parent.name, Path(path).stem, *rest.split()[:2]))
    return found


def uses_between(folder: str) -> dict[str, set[str]]:
    """File -> the other files of its folder whose functions and variables it uses."""
    own = [(file, symbol, kind) for place, file, symbol, kind in symbols() if place == folder]
    defined_in = {symbol: file for file, symbol, kind in own if kind.isupper() and kind != "U"}
    uses: dict[str, set[str]] = {file: set() for file, _, _ in own}
    for file, symbol, kind in own:
        if kind == "U" and symbol in defined_in:
            uses[file].add(defined_in[symbol])
    return uses


class TestCycles:
    """A file can be read after the files it uses."""

    @pytest.mark.parametrize("folder", FOLDERS)
    def test_no_two_files_use_each_other(self, folder: str) -> None:
        try:
            TopologicalSorter(uses_between(folder)).prepare()
        except CycleError as error:
            pytest.fail(f"cycle in {folder}: {' -> '.join(error.args[1])}")

    def test_uses_are_found(self) -> None:
        """Otherwise no cycle would be."""
        assert "threads" in uses_between("trainer")["step"]
