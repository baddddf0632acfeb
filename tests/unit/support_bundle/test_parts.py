"""What single parts tell, and leave out."""

from __future__ import annotations

from exporter.support_bundle.parts import packages, without_names


class TestNamesOfWorkloads:
    """Of what a running exporter serves."""

    def test_they_become_numbers_and_what_is_equal_stays_equal(self) -> None:
        """A culprit that is a traced program too is recognised."""
        assert without_names(
            'a_total{node="gpu7",rank="3",pod="alice-0",comm="train",cause="lock"} 1\n'
            'b_total{node="gpu7",rank="",pod="",culprit="train"} 2\n'
        ) == (
            'a_total{node="name-1",rank="3",pod="name-2",comm="name-3",cause="lock"} 1\n'
            'b_total{node="name-1",rank="",pod="",culprit="name-3"} 2\n'
        )

    def test_label_that_nobody_knows_is_a_name(self) -> None:
        """One that a later version adds is not told by mistake."""
        assert without_names('a{new="x"} 1') == 'a{new="name-1"} 1'

    def test_escaped_quote_does_not_end_a_value(self) -> None:
        """As the format has it."""
        assert without_names(r'a{comm="x\"secret\"",le="1"} 1') == 'a{comm="name-1",le="1"} 1'


class TestPackages:
    """Which versions are installed."""

    def test_ours_and_what_it_needs_are_named(self) -> None:
        """What those need, too; what only tests need is not."""
        found = packages()

        assert {"gpu-stall-exporter", "prometheus-client", "opentelemetry-sdk", "opentelemetry-api"} <= set(found)
        assert "pytest" not in found
