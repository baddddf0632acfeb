"""metrics: names of workloads in /metrics are replaced by numbers."""

from __future__ import annotations

from exporter.support_bundle.metrics import without_names


class TestWithoutNames:
    def test_equal_names_get_equal_numbers(self) -> None:
        """A culprit that is also a traced program can be recognised."""
        assert without_names(
            'a_total{node="gpu7",rank="3",pod="alice-0",comm="train",cause="lock"} 1\n'
            'b_total{node="gpu7",rank="",pod="",culprit="train"} 2\n'
        ) == (
            'a_total{node="name-1",rank="3",pod="name-2",comm="name-3",cause="lock"} 1\n'
            'b_total{node="name-1",rank="",pod="",culprit="name-3"} 2\n'
        )

    def test_values_of_unknown_labels_are_replaced(self) -> None:
        """A label that a later version adds may hold a name."""
        assert without_names('a{new="x"} 1') == 'a{new="name-1"} 1'

    def test_escaped_quote_does_not_end_a_value(self) -> None:
        assert without_names(r'a{comm="x\"secret\"",le="1"} 1') == 'a{comm="name-1",le="1"} 1'
