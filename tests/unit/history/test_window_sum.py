"""window_sum: windows that are added up before they are checked."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.history.window import NO_STEPS, OperationTime, Switches, Window
from exporter.history.window_sum import Part, WindowSum
from exporter.totals import Counts, HistogramTotal
from tests.support.history import MS, NOON, SECOND, a_call_site, a_window, process_labels, times


def sum_of(*windows: Window, parts: tuple[Part, ...] = tuple(Part)) -> WindowSum:
    total = WindowSum(1, windows[0].began_unix_ns)
    for one in windows:
        total.add(one.to_document(), one.ended_unix_ns, one.duration_ns, parts)
    return total


class TestSum:
    def test_one_window_stays_as_it_is(self) -> None:
        assert sum_of(a_window()).to_window() == a_window()

    def test_two_windows_are_one_of_twenty_seconds(self) -> None:
        """Times, counts and names add up; a gap between them is not covered."""
        more = a_window(
            30,
            lost_ns={"lock": 5, "irq": 7},
            culprits_ns=(("cpu_contention", "cron", 3), ("cpu_contention", "stress-ng", 4)),
            operations=(OperationTime("nccl", "ncclAllReduce", 2, 1, times(2, MS)),),
        )
        total = sum_of(a_window(10), more)
        found = total.to_window()

        assert (found.began_unix_ns, found.ended_unix_ns, total.covered_ns) == (NOON, NOON + 30 * SECOND, 20 * SECOND)
        assert found.steps == times(1000, 20 * MS)
        assert found.lost_ns == {"cpu_contention": 900 * MS, "lock": 100 * MS + 5, "irq": 7}
        assert found.culprits_ns == (("cpu_contention", "stress-ng", 900 * MS + 4), ("cpu_contention", "cron", 3))
        assert found.switches == Switches(1800, 200)
        assert [(one.name, one.calls, one.errors) for one in found.operations] == [
            ("cudaStreamSynchronize", 500, 0),
            ("ncclAllReduce", 2, 1),
        ]

    @pytest.mark.parametrize(
        ("begin", "held", "expected"),
        [
            (10, [1, 2], (10, (5, 7, 7))),
            (11, [1, 2], (10, (4, 6, 9))),
            (12, [1, 2], (10, (4, 5, 8, 2))),
            (9, [1], (9, (1, 4, 5, 7))),
            (8, [1, 0, 3, 1, 1, 9], (8, (1, 0, 7, 6, 8, 9))),
            (20, [1], (10, (4, 5, 7, 0, 0, 0, 0, 0, 0, 0, 1))),
            (0, [], (10, (4, 5, 7))),
        ],
    )
    def test_histograms_of_other_buckets_are_added(
        self, begin: int, held: list[int], expected: tuple[int, tuple[int, ...]]
    ) -> None:
        steps = HistogramTotal(Counts(10, (4, 5, 7)), 0)
        found = sum_of(a_window(steps=steps), a_window(steps=HistogramTotal(Counts(begin, tuple(held)), 0))).to_window()

        assert (found.steps.counts.begin, found.steps.counts.held) == expected

    def test_labels_are_the_latest(self) -> None:
        """A rank may become known later than the first window."""
        assert sum_of(a_window(labels=process_labels("")), a_window(20)).to_window().labels.identity.rank == "3"

    def test_operations_and_call_sites_can_be_left_out(self) -> None:
        window = a_window(call_sites=(a_call_site(),))

        assert sum_of(window, parts=(Part.CALL_SITES,)).to_window().operations == ()
        assert sum_of(window, parts=(Part.OPERATIONS,)).to_window().call_sites == ()

    def test_slow_calls_of_one_stack_are_added_and_the_bound_is_the_latest(self) -> None:
        first, second = a_call_site(slow_from_ns=5), a_call_site(slow_from_ns=7)
        total = sum_of(a_window(call_sites=(first,)), a_window(20, call_sites=(second,)))
        found = total.to_window({first.stack.number: first.stack}.__getitem__)

        assert found.call_sites == (first.plus(second),)
        assert found.call_sites[0].slow_from_ns == 7

    def test_document_of_version_1_has_no_call_sites(self) -> None:
        total = WindowSum(1, NOON)
        total.add(a_window().to_document()[:8], NOON + 10 * SECOND, 10 * SECOND)

        assert total.to_window() == a_window()

    def test_names_are_counted(self) -> None:
        """Two causes, a culprit, four states and an operation."""
        assert sum_of(a_window(), a_window(20)).names == 8


class TestOtherDocuments:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            (0, -1),
            (1, [[], 1, "x"]),
            (2, [0, 0, "x"]),
            (2, [0, -1, [1]]),
            (2, [0, 10**9, [1]]),
            (2, [0, 337, [1, 1]]),
            (2, [1.5, 0, []]),
            (2, [0, 0, [0.5]]),
            (2, [0, 0, [-1]]),
            (3, {"lock": 1.5}),
            (3, {"lock": "x"}),
            (3, 5),
            (3, [0]),
            (4, [["cause", [], 1]]),
            (4, [["cause", 5, 1]]),
            (4, [["cause", "culprit", None]]),
            (4, [[1]]),
            (5, {"state": 10**400}),
            (6, [1]),
            (6, ["x", "y"]),
            (7, [["api", "name", 1, 2]]),
            (7, [["api", "name", "1", 2, [0, 0, []]]]),
            (7, [["api", None, 1, 2, [0, 0, []]]]),
        ],
    )
    def test_each_is_refused(self, field: int, value: Any) -> None:
        """When it is added or when the sum is checked."""
        document = a_window(steps=NO_STEPS).to_document()
        document[field] = value

        with pytest.raises((ValueError, TypeError, LookupError)):
            _sum_of_document(document)

    @pytest.mark.parametrize("document", [[], {}, "12345678", None, [1, 2, 3]])
    def test_other_shapes_are_refused(self, document: Any) -> None:
        with pytest.raises((ValueError, TypeError, LookupError)):
            _sum_of_document(document)

    def test_names_are_printable(self) -> None:
        found = sum_of(a_window(culprits_ns=(("lock", "\x1b[2J", 5),), lost_ns={"a\nb": 1})).to_window()

        assert (found.culprits_ns, found.lost_ns) == ((("lock", "\ufffd[2J", 5),), {"a\ufffdb": 1})


def _sum_of_document(document: Any) -> Window:
    total = WindowSum(document[0] if document else None, NOON)
    total.add(document, NOON + SECOND, SECOND)
    return total.to_window()
