"""baseline: what a clean wait takes."""

from __future__ import annotations

from exporter.accounting.wait_baseline import WaitBaseline


class TestBaseline:
    """A mean."""

    def test_five_are_enough(self) -> None:
        """Four are not."""
        baseline = WaitBaseline()
        baseline.add(4, 400)
        before = baseline.is_known
        baseline.add(1, 100)

        assert (before, baseline.is_known) == (False, True)

    def test_expectation_is_the_mean_times_the_number(self) -> None:
        """10 waits of 100 on average."""
        baseline = WaitBaseline()
        baseline.add(5, 300)
        baseline.add(5, 700)

        assert baseline.expected_ns(3) == 300

    def test_expectation_is_rounded_once(self) -> None:
        """A mean of 3.33, three times."""
        baseline = WaitBaseline()
        baseline.add(6, 20)

        assert baseline.expected_ns(3) == 10

    def test_new_phase_replaces_the_old_one(self) -> None:
        """2,000 waits of 100, then 2,000 of 900: the mean is above 890."""
        baseline = WaitBaseline()
        for wait_ns in (100, 900):
            for _ in range(200):
                baseline.add(10, 10 * wait_ns)

        assert 890 < baseline.expected_ns(1) <= 900
