"""Puts rules, boards, manifests and documents into the exporter's wheel, from where they are in the tree.

setuptools runs it (`cmdclass` in pyproject.toml). An editable installation reads the tree, so there is nothing to copy.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from setuptools.command.build_py import build_py

_PACKAGE = Path("exporter", "assets")


class BuildWithAssets(build_py):  # type: ignore[misc,unused-ignore] # old versions of setuptools have no types
    """The build of the package, and then these files in it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        # A build has no path to import the package from.
        for name in runpy.run_path(str(_PACKAGE / "patterns.py"))["names"](Path()):
            target = Path(self.build_lib, _PACKAGE, "files", name)
            self.mkpath(str(target.parent))
            self.copy_file(name, str(target), preserve_mode=False)
