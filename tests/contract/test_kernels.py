"""The kernels that the tests run in are those that the documents and `check` name."""

from __future__ import annotations

from docs.generate import ROOT
from exporter.checks import kernel
from tests.kernels import KERNELS, TESTS


def test_the_oldest_kernel_is_the_one_that_check_names() -> None:
    """From there on `check` has nothing to remark."""
    assert tuple(map(int, KERNELS[0].split("."))) == kernel.OLDEST_TESTED


def test_readme_names_every_kernel() -> None:
    """The requirement is what passes."""
    requirement = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("Tested on kernels ")[2].partition(".\u0020")[0]
    )

    assert set(KERNELS) <= set(requirement.replace(" and ", ", ").split(", "))


def test_every_listed_file_is_there() -> None:
    """A renamed file would be an error of pytest's, but only where there is an emulator."""
    assert [name for name in TESTS if not (ROOT / name.partition("::")[0]).exists()] == []
