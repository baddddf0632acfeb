"""scrape.slow_lines: lines of Python from two readings of the page /call-sites."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.model import Identity
from exporter.output.web.call_sites import NAME
from exporter.scrape.slow_lines import PAGE, SiteKey, SitesReading, SiteSum, SlowLines, call_sites_of
from exporter.scrape.view import SlowLine
from exporter.text.untrusted import Untrusted
from tests.support.views import RANK_0

KEY = SiteKey(RANK_0, 4026, "cudaMalloc", "step (train.py:142)")


def lines(before: dict[SiteKey, SiteSum], now: dict[SiteKey, SiteSum]) -> dict[Identity, tuple[SlowLine, ...]]:
    """Two seconds apart."""
    found = SlowLines()
    assert found.add(SitesReading(10.0, before)) == {}
    return found.add(SitesReading(12.0, now))


class TestLines:
    def test_rates_are_those_of_the_time_between_two_readings(self) -> None:
        """36 calls of 20 ms in two seconds."""
        found = lines({KEY: SiteSum(4, 1.0, 0.01)}, {KEY: SiteSum(40, 1.72, 0.01)})

        assert list(found) == [RANK_0]
        (line,) = found[RANK_0]
        assert (line.operation, line.line, line.calls_per_second) == ("cudaMalloc", "step (train.py:142)", 18.0)
        assert line.mean_seconds == pytest.approx(0.02)

    def test_lines_stay_until_the_exporter_has_read_again(self) -> None:
        """It does so once a second, and `top` may be faster."""
        found = SlowLines()
        found.add(SitesReading(10.0, {}))
        before = found.add(SitesReading(12.0, {KEY: SiteSum(36, 0.72, 0.01)}))

        assert found.add(SitesReading(12.0, {KEY: SiteSum(36, 0.72, 0.01)})) == before != {}

    def test_line_without_new_calls_is_left_out(self) -> None:
        assert lines({KEY: SiteSum(4, 1.0, 0.01)}, {KEY: SiteSum(4, 1.0, 0.01)}) == {}

    def test_process_with_the_pid_of_one_that_ended_counts_from_zero(self) -> None:
        (line,) = lines({KEY: SiteSum(40, 1.0, 0.01)}, {KEY: SiteSum(4, 0.1, 0.01)})[RANK_0]

        assert line.calls_per_second == 2.0

    def test_processes_of_one_identity_are_added_up(self) -> None:
        now = {KEY: SiteSum(4, 0.1, 0.01), KEY._replace(pid=9): SiteSum(6, 0.1, 0.02)}
        (line,) = lines({}, now)[RANK_0]

        assert (line.calls_per_second, line.slow_from_seconds) == (5.0, 0.02)

    def test_line_that_the_page_did_not_list_before_is_left_out(self) -> None:
        """With 64 lines of a process it is cut: the sum of another one did not begin at zero."""
        listed = {KEY._replace(line=f"step (train.py:{n})"): SiteSum(4, 1.0, 0.01) for n in range(64)}

        assert lines(listed, {KEY: SiteSum(40, 1.72, 0.01)}) == {}

    def test_most_time_comes_first(self) -> None:
        now = {KEY: SiteSum(4, 0.1, 0.01), KEY._replace(line="main (train.py:9)"): SiteSum(1, 0.9, 0.01)}

        assert [one.line for one in lines({}, now)[RANK_0]] == ["main (train.py:9)", "step (train.py:142)"]


class TestPage:
    def document(self, **changes: Any) -> bytes:
        site = {"operation": "cudaMalloc", "line": "step (train.py:142)", "slow_calls": 4}
        site |= {"slow_seconds": 1.0, "slow_from_seconds": 0.01}
        process = {"node": "gpu7", "rank": "0", "container": "", "namespace": "", "pod": "", "pid": 4026}
        return json.dumps(
            {"version": 1, "read_monotonic_seconds": 7.5, "processes": [{**process, "call_sites": [site | changes]}]}
        ).encode()

    def test_page_is_read(self) -> None:
        assert call_sites_of(self.document()) == SitesReading(7.5, {KEY: SiteSum(4, 1.0, 0.01)})

    def test_page_has_the_name_that_the_exporter_serves(self) -> None:
        assert PAGE == NAME

    def test_names_are_printable(self) -> None:
        """Whichever server answers."""
        (key,) = call_sites_of(self.document(line="\x1b[2J", operation="a\nb")).sums

        assert (key.line, key.operation) == ("\ufffd[2J", "a\ufffdb")

    @pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"read_monotonic_seconds": 1, "processes": [1]}'])
    def test_other_content_is_refused(self, body: bytes) -> None:
        with pytest.raises(Untrusted):
            call_sites_of(body)

    @pytest.mark.parametrize("change", [{"slow_calls": -1}, {"slow_seconds": "x"}, {"line": 5}, {"slow_calls": 1.5}])
    def test_other_values_are_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="want"):
            call_sites_of(self.document(**change))
