"""top: what is said to somebody who got a flag or the address wrong."""

from __future__ import annotations

import pytest

from exporter.__main__ import main
from exporter.output import protobuf
from tests.support.metrics_page import page, responds
from tests.support.receiver import refused


def said(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """Exit code, and the line on the standard error; nothing else is printed."""
    code = main(["top", *flags])
    printed = capsys.readouterr()

    assert printed.out == ""
    return code, printed.err


class TestFlags:
    """Exit code 2."""

    @pytest.mark.parametrize("text", ["2", "soon", "0s", "100ms"])
    def test_interval(self, capsys: pytest.CaptureFixture[str], text: str) -> None:
        """A duration, and not shorter than what the exporter can tell apart."""
        code, line = said(capsys, f"--interval={text}")

        assert code == 2
        assert line.startswith(f"gpu-stall-exporter: --interval: invalid value '{text}'")

    def test_url(self, capsys: pytest.CaptureFixture[str]) -> None:
        """With an example."""
        code, line = said(capsys, "--url=gpu7:metrics")

        assert code == 2
        assert line.endswith("such as http://gpu7:10478/metrics\n")


class TestFirstScrape:
    """Exit code 1, and one line."""

    def test_nobody_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The address, and what to do."""
        with refused() as gone:
            assert said(capsys, f"--url={gone}") == (
                1,
                f"gpu-stall-exporter: {gone}/metrics: connection refused; start `gpu-stall-exporter run` there, or give --url\n",
            )

    def test_another_exporter(self, capsys: pytest.CaptureFixture[str]) -> None:
        """It speaks the same format."""
        body = protobuf.family("node_load1", "", protobuf.GAUGE, [])
        with page({"/metrics": responds(body)}) as found:
            code, line = said(capsys, f"--url={found.base}")

        assert code == 1
        assert line.startswith(
            f"gpu-stall-exporter: {found.base}/metrics: answers with metrics, but none of gpu-stall-exporter; want the address"
        )
