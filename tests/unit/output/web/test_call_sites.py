"""web.call_sites: the page with lines of Python, bounded."""

from __future__ import annotations

import json
from typing import Any

from exporter.model import Identity
from exporter.output.web.call_sites import (
    ALL_MAX,
    LINE_CHARACTERS_MAX,
    OF_PROCESS_MAX,
    CallSitesReading,
    ProcessCallSites,
    page,
)
from exporter.python.call_site import OTHER_STACKS, CallSite, CallStack, PythonFrame
from tests.support.history import SECOND, a_call_site

RANK = Identity(node="gpu7", rank="3", pod="trainer-0")


def document(*processes: ProcessCallSites) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(b"".join(page(CallSitesReading(7 * SECOND, processes)).body))["processes"]
    return found


def lines_of(*sites: CallSite) -> list[str]:
    return [one["line"] for one in document(ProcessCallSites(RANK, 100, sites))[0]["call_sites"]]


class TestPage:
    def test_process_has_its_labels_and_its_lines(self) -> None:
        assert document(ProcessCallSites(RANK, 100, (a_call_site(),))) == [
            {
                "node": "gpu7",
                "rank": "3",
                "container": "",
                "namespace": "",
                "pod": "trainer-0",
                "pid": 100,
                "call_sites": [
                    {
                        "api": "runtime",
                        "operation": "cudaStreamSynchronize",
                        "slow_calls": 23,
                        "slow_seconds": 1.15,
                        "slow_from_seconds": 0.025,
                        "line": "step (train.py:142) through Stream.synchronize (torch/cuda/streams.py:106)",
                    }
                ],
            }
        ]

    def test_page_has_the_time_of_the_reading(self) -> None:
        """Two pages may be of one reading of the kernel."""
        assert json.loads(page(CallSitesReading(7 * SECOND, ())).body[0])["read_monotonic_seconds"] == 7.0

    def test_whole_paths_are_not_shown(self) -> None:
        """Only what is below the working directory or site-packages."""
        assert (
            "/srv/job"
            not in b"".join(page(CallSitesReading(0, [ProcessCallSites(RANK, 100, (a_call_site(),))])).body).decode()
        )

    def test_process_without_slow_calls_is_left_out(self) -> None:
        assert document(ProcessCallSites(RANK, 100, ())) == []
        assert document(ProcessCallSites(RANK, 100, (a_call_site(stack=OTHER_STACKS),))) == []

    def test_lines_with_little_time_are_left_out(self) -> None:
        sites = tuple(a_call_site(line, calls=line) for line in range(1, OF_PROCESS_MAX + 4))
        found = document(ProcessCallSites(RANK, 100, sites))[0]["call_sites"]

        assert [one["slow_calls"] for one in found] == list(range(OF_PROCESS_MAX + 3, 3, -1))

    def test_all_processes_together_have_a_bound(self) -> None:
        sites = tuple(a_call_site(line) for line in range(OF_PROCESS_MAX))
        found = document(*(ProcessCallSites(RANK, number, sites) for number in range(ALL_MAX // OF_PROCESS_MAX + 3)))

        assert sum(len(one["call_sites"]) for one in found) == ALL_MAX

    def test_long_name_is_cut(self) -> None:
        (line,) = lines_of(a_call_site(stack=CallStack("", (PythonFrame("/" + "d" * 900, "f", 1),))))

        assert len(line) == LINE_CHARACTERS_MAX
        assert line.endswith("…")
