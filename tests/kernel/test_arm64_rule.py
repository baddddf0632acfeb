"""On arm64 nothing is probed unless it is asked for. Which machine this is, is told; everything else is as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import gpustall_standin as standin
from exporter import config
from exporter.app.daemon import Daemon
from exporter.checks import programs
from exporter.checks.check import CheckState
from exporter.host.libraries import LibraryKind
from tests.support import held_calls

FLAGS = {"web.listen-address": "127.0.0.1:0"}
ON_ARM64 = {**FLAGS, "probes.on-arm64": "true"}


@pytest.fixture
def resources() -> Iterator[ExitStack]:
    """What a daemon holds."""
    with ExitStack() as found:
        yield found


def _probed(daemon: Daemon) -> set[str]:
    daemon.discovery.expect(standin.build_dir() / "libcuda.so.1", LibraryKind.DRIVER)
    return {probed.path.rpartition("/")[2] for probed in daemon.discovery.probed()}


class TestRun:
    """While a job runs."""

    def test_nothing_is_probed(self, resources: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
        """And a warning says how it would be."""
        resources.enter_context(held_calls.held_calls("cudaEventRecord:1"))
        daemon = Daemon(config.load(FLAGS), resources, machine="aarch64")

        assert _probed(daemon) == set()
        assert "no library is probed: on arm64 a fault of the kernel" in caplog.text
        assert "--probes.on-arm64 probes even so" in caplog.text

    def test_who_asks_for_it_gets_it_with_a_warning(
        self, resources: ExitStack, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The flag."""
        daemon = Daemon(config.load(ON_ARM64), resources, machine="aarch64")

        assert "libcuda.so.1" in _probed(daemon)
        assert "although on arm64 a fault of the kernel" in caplog.text


class TestCheck:
    @pytest.mark.parametrize(
        ("flags", "found"),
        [
            (FLAGS, "no library is probed: on arm64 a fault of the kernel has been reported to"),
            (ON_ARM64, "on arm64 a fault of the kernel has been reported to"),
        ],
    )
    def test_arm64_has_a_warning(self, flags: dict[str, str], found: str) -> None:
        """`run` can start."""
        (check,) = programs.arm64_probes(config.load(flags), "aarch64")

        assert check.state is CheckState.WARNING
        assert check.found.startswith(found)

    def test_x86_64_has_no_such_check(self) -> None:
        assert list(programs.arm64_probes(config.load(FLAGS), "x86_64")) == []
