"""Kernels of tests/kernels, the documents and `check` agree."""

from __future__ import annotations

from itertools import chain

from docs.generate import ROOT
from exporter.checks import kernel
from tests.kernels import KERNELS, TESTS


def test_oldest_kernel_is_that_of_check() -> None:
    """`check` has no warning from this kernel on."""
    assert tuple(map(int, KERNELS[0].split("."))) == kernel.OLDEST_TESTED


def test_readme_names_every_kernel() -> None:
    """Under Requirements."""
    requirement = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("Tested on kernels ")[2].partition(".\u0020")[0]
    )

    assert set(KERNELS) <= set(requirement.replace(" and ", ", ").split(", "))


def test_every_listed_file_exists() -> None:
    """pytest would fail only on a machine with an emulator."""
    assert [name for name in chain(*TESTS.values()) if not (ROOT / name.partition("::")[0]).exists()] == []
