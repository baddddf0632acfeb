"""No test of `make test` bounds a time from above without a reason beside it: it would fail on a loaded machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.clock_bounds import OUTSIDE, offences

TESTS = Path(__file__).parents[1]
FOLDERS = ("unit", "contract", "kernel", "end_to_end")
TIMED = "    began = time.monotonic()\n    act()\n    seconds = time.monotonic() - began\n"


def found_in(folder: Path, body: str, before: str = "") -> list[int]:
    path = folder / "test_one.py"
    path.write_text(f"{before}def test_one():\n{body}", encoding="utf-8")
    return offences(path)


def test_markers_are_those_that_the_gate_leaves_out() -> None:
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8")
    (left_out,) = re.findall(r"^IN_GATE +:= not \((.*)\)$", makefile, re.MULTILINE)

    assert frozenset(left_out.split(" or ")) == OUTSIDE


def test_no_test_bounds_a_time_from_above() -> None:
    """Count operations, wait for an event, or mark the test `acceptance`."""
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for folder in FOLDERS
        for path in sorted((TESTS / folder).rglob("*.py"))
        for line in offences(path)
    ]

    assert found == []


def test_no_test_has_a_shorter_time_limit_than_all_have(pytestconfig: pytest.Config) -> None:
    """It would be such a bound."""
    common = float(pytestconfig.getini("timeout"))
    limits = [
        (path.name, limit)
        for folder in FOLDERS
        for path in sorted((TESTS / folder).rglob("*.py"))
        for limit in re.findall(r"mark\.timeout\((\d+)\)", path.read_text(encoding="utf-8"))
    ]

    assert [(name, limit) for name, limit in limits if float(limit) < common] == []


@pytest.mark.parametrize(
    "body",
    [
        f"{TIMED}    assert seconds < 5\n",
        f"{TIMED}    assert 5 > seconds\n",
        f"{TIMED}    assert 1 <= seconds < LIMIT\n",
        f"{TIMED}    assert seconds == pytest.approx(5, rel=0.1)\n",
        f"{TIMED}    assert seconds < 1.1 * (began - time.monotonic())\n",
        "    began = time.perf_counter_ns()\n    assert time.perf_counter_ns() < began + 5\n",
        "    spent = [elapsed(act) for _ in range(5)]\n    assert max(spent) < 5\n",
    ],
)
def test_upper_bounds_are_found(tmp_path: Path, body: str) -> None:
    elapsed = "def elapsed(act):\n    began = time.process_time()\n    act()\n    return time.process_time() - began\n"

    assert len(found_in(tmp_path, body, elapsed)) == 1


@pytest.mark.parametrize(
    "body",
    [
        f"{TIMED}    assert seconds >= 0.3\n",
        f"{TIMED}    assert seconds < 5  # steady: the clock is a fake\n",
        f"{TIMED}    outer = time.monotonic() - began\n    assert seconds <= outer\n",
        f"{TIMED}    outer = time.monotonic() - began\n    assert seconds <= measured() <= outer\n",
        "    before = time.time()\n    assert before <= act() <= time.time()\n",
        "    assert len(act()) < 5\n",
    ],
)
def test_other_comparisons_are_not(tmp_path: Path, body: str) -> None:
    assert found_in(tmp_path, body) == []


def test_tests_outside_of_the_gate_may(tmp_path: Path) -> None:
    for mark in ("@pytest.mark.acceptance\n", "FIGURE = pytest.mark.idle_machine\n@FIGURE\n"):
        assert found_in(tmp_path, f"{TIMED}    assert seconds < 5\n", mark) == []
