"""top: invalid flags and addresses."""

from __future__ import annotations

import pytest

from exporter.__main__ import main
from exporter.output import protobuf
from tests.support.metrics_page import page, responds
from tests.support.receiver import refused


def said(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """(exit code, standard error); standard output is empty."""
    code = main(["top", *flags])
    printed = capsys.readouterr()

    assert printed.out == ""
    return code, printed.err


class TestFlags:
    @pytest.mark.parametrize("text", ["2", "soon", "0s", "100ms"])
    def test_invalid_interval(self, capsys: pytest.CaptureFixture[str], text: str) -> None:
        """Not a duration, or shorter than the exporter caches its metrics."""
        code, line = said(capsys, f"--interval={text}")

        assert code == 2
        assert line.startswith(f"gpu-stall-exporter: --interval: invalid value '{text}'")

    def test_invalid_url(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, line = said(capsys, "--url=gpu7:metrics")

        assert code == 2
        assert line.endswith("such as http://gpu7:10478/metrics\n")


class TestFirstScrape:
    def test_no_exporter(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The error has the address and the next step."""
        with refused() as gone:
            assert said(capsys, f"--url={gone}") == (
                1,
                f"gpu-stall-exporter: {gone}/metrics: connection refused; start `gpu-stall-exporter run` there, or give --url\n",
            )

    def test_another_exporter(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Another exporter has the same format."""
        body = protobuf.family("node_load1", "", protobuf.GAUGE, [])
        with page({"/metrics": responds(body)}) as found:
            code, line = said(capsys, f"--url={found.base}")

        assert code == 2
        assert line.startswith(
            f"gpu-stall-exporter: {found.base}/metrics: metrics of another program, not of gpu-stall-exporter; want the address"
        )
